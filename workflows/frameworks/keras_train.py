"""A perceptron in Keras 3 on TensorFlow, on several ranks: gradients are averaged as NumPy arrays by dlflow."""

import os

os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import clothes  # noqa: E402
import dlflow  # noqa: E402
import keras  # noqa: E402
import tensorflow as tf  # noqa: E402
from dlflow import arrays  # noqa: E402

given = dlflow.params(data=".", epochs=1, batch=256, lr=0.3)
ranks = arrays.join()
keras.utils.set_random_seed(0)
model = keras.Sequential([keras.layers.Input((784,)), keras.layers.Dense(128, activation="relu"), keras.layers.Dense(10)])
optimizer = keras.optimizers.SGD(given.lr)
optimizer.build(model.trainable_variables)
measure = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@tf.function
def step_of(pictures, classes):
    with tf.GradientTape() as tape:
        value = measure(classes, model(pictures, training=True))
    return value, tape.gradient(value, model.trainable_variables)


def state(variables):
    return {str(number): variable.numpy() for number, variable in enumerate(variables)}


def assign(variables, saved_state):
    for number, variable in enumerate(variables):
        variable.assign(saved_state[str(number)])


pictures, classes = clothes.read(given.data, "train")
saved = dlflow.resume(group=ranks.group, folder="checkpoints")
if saved:
    assign(model.variables, saved.part("model"))
    assign(optimizer.variables, saved.part("optimizer"))
steps = len(classes) // given.batch
for epoch in range(saved.epoch, given.epochs):
    for own in clothes.batches(len(classes), given.batch, epoch, saved.step - epoch * steps, ranks.rank, ranks.size):
        value, gradients = step_of(pictures[own], classes[own])
        gradients = ranks.mean([gradient.numpy() for gradient in gradients])
        optimizer.apply_gradients([(tf.constant(gradient), variable) for gradient, variable in zip(gradients, model.trainable_variables)])
        saved.step += 1
        if saved.step % 20 == 0:
            dlflow.report(epoch=epoch, step=saved.step, steps=steps * given.epochs, loss=float(value))
        if dlflow.should_stop():
            dlflow.checkpoint(saved.step, epoch=epoch, model=state(model.variables), optimizer=state(optimizer.variables))
            dlflow.stop()

pictures, classes = clothes.read(given.data, "t10k")
accuracy = float((model(pictures).numpy().argmax(axis=1) == classes).mean())
dlflow.report(step=saved.step, accuracy=accuracy)
dlflow.checkpoint(saved.step, epoch=given.epochs, metrics={"accuracy": accuracy}, model=state(model.variables), optimizer=state(optimizer.variables))
