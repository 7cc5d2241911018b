"""train_jax.py DATA EPOCHS: trains with JAX. Orbax saves out/N after each epoch; the newest one continues."""

import gzip
import os
import sys

import jax
import jax.numpy as jnp
import numpy
import orbax.checkpoint as ocp

data, epochs = sys.argv[1], int(sys.argv[2])
x = numpy.frombuffer(gzip.open(f"{data}/train-images-idx3-ubyte.gz").read(), numpy.uint8, offset=16).reshape(-1, 784) / numpy.float32(255)
y = numpy.frombuffer(gzip.open(f"{data}/train-labels-idx1-ubyte.gz").read(), numpy.uint8, offset=8).astype(numpy.int32)


def loss(weights, x, y):
    hidden = jax.nn.relu(x @ weights["w1"] + weights["b1"])
    return -jnp.mean(jax.nn.log_softmax(hidden @ weights["w2"] + weights["b2"])[jnp.arange(len(y)), y])


@jax.jit
def step(weights, momentum, x, y):
    value, gradient = jax.value_and_grad(loss)(weights, x, y)
    momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, gradient)
    return jax.tree.map(lambda w, m: w - 0.02 * m, weights, momentum), momentum, value


keys = jax.random.split(jax.random.key(0))
weights = {"w1": jax.random.normal(keys[0], (784, 256)) * 0.05, "b1": jnp.zeros(256), "w2": jax.random.normal(keys[1], (256, 10)) * 0.1, "b2": jnp.zeros(10)}
state = {"weights": weights, "momentum": jax.tree.map(jnp.zeros_like, weights)}
manager = ocp.CheckpointManager(os.path.abspath("out"), options=ocp.CheckpointManagerOptions(max_to_keep=2))
done = manager.latest_step() or 0
if done:
    state = manager.restore(done, args=ocp.args.StandardRestore(state))
for epoch in range(done + 1, epochs + 1):
    for batch in numpy.split(numpy.random.default_rng(epoch).permutation(60000), 600):
        state["weights"], state["momentum"], value = step(state["weights"], state["momentum"], x[batch], y[batch])
    print(f"epoch {epoch}: loss {value:.3f}", flush=True)
    manager.save(epoch, args=ocp.args.StandardSave(state))
manager.wait_until_finished()
numpy.savez("model.npz", **state["weights"])
