"""A perceptron in JAX, on several ranks: gradients are averaged as NumPy arrays by dlflow."""

import sys

import clothes
import dlflow
import jax
import jax.numpy as jnp
from dlflow import arrays

given = dlflow.params(data=".", epochs=1, batch=256, lr=0.3)
ranks = arrays.join()


def initial(key):
    first, second = jax.random.split(key)
    return {"w1": jax.random.normal(first, (784, 128)) * 0.05, "b1": jnp.zeros(128),
            "w2": jax.random.normal(second, (128, 10)) * 0.1, "b2": jnp.zeros(10)}


def logits(weights, pictures):
    return jax.nn.relu(pictures @ weights["w1"] + weights["b1"]) @ weights["w2"] + weights["b2"]


def loss(weights, pictures, classes):
    return -jnp.take_along_axis(jax.nn.log_softmax(logits(weights, pictures)), classes[:, None], axis=1).mean()


step_of = jax.jit(jax.value_and_grad(loss))
pictures, classes = clothes.read(given.data, "train")
saved = dlflow.resume(group=ranks.group, folder="checkpoints")
weights = saved.part("model") or initial(jax.random.PRNGKey(0))
steps = len(classes) // given.batch
for epoch in range(saved.epoch, given.epochs):
    for own in clothes.batches(len(classes), given.batch, epoch, saved.step - epoch * steps, ranks.rank, ranks.size):
        value, gradients = step_of(weights, pictures[own], classes[own])
        leaves, tree = jax.tree_util.tree_flatten(gradients)
        gradients = jax.tree_util.tree_unflatten(tree, ranks.mean(leaves))
        weights = jax.tree_util.tree_map(lambda weight, gradient: weight - given.lr * gradient, weights, gradients)
        saved.step += 1
        if saved.step % 20 == 0:
            dlflow.report(epoch=epoch, step=saved.step, steps=steps * given.epochs, loss=value)
        if dlflow.should_stop():
            dlflow.checkpoint(saved.step, epoch=epoch, model=weights)
            dlflow.stop()

pictures, classes = clothes.read(given.data, "t10k")
accuracy = (logits(weights, pictures).argmax(axis=1) == classes).mean()
dlflow.report(step=saved.step, accuracy=accuracy)
dlflow.checkpoint(saved.step, epoch=given.epochs, metrics={"accuracy": accuracy}, model=weights)
sys.stdout.flush()
