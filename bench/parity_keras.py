"""One training of LeNet for bench/parity.py in Keras 3 on TensorFlow: `parity_keras.py JSON`. Prints one JSON line."""

import json
import math

import keras
import tensorflow

from parity_pictures import GIVEN, pictures


def like_pytorch(kind, fan_in, *arguments, **more):
    """A layer with initial weights and biases uniform in +-1/sqrt(fan_in)."""
    start = lambda: keras.initializers.RandomUniform(-1 / math.sqrt(fan_in), 1 / math.sqrt(fan_in))
    return kind(*arguments, kernel_initializer=start(), bias_initializer=start(), **more)


def main():
    keras.utils.set_random_seed(GIVEN["seed"])
    tensorflow.config.threading.set_intra_op_parallelism_threads(1)
    tensorflow.config.threading.set_inter_op_parallelism_threads(1)
    images, labels = pictures("train", (28, 28, 1), "i4")
    test, test_labels = pictures("t10k", (28, 28, 1), "i4")
    layers = keras.layers
    model = keras.Sequential([
        keras.Input((28, 28, 1)), like_pytorch(layers.Conv2D, 9, 32, 3, activation="relu"), like_pytorch(layers.Conv2D, 288, 64, 3, activation="relu"),
        layers.MaxPooling2D(2), layers.Flatten(), like_pytorch(layers.Dense, 9216, 128, activation="relu"), like_pytorch(layers.Dense, 128, 10)])
    model.compile(keras.optimizers.SGD(GIVEN["lr"], momentum=0.9), keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    model.fit(images, labels, GIVEN["batch"], GIVEN["epochs"], verbose=0, shuffle=True)
    loss, accuracy = model.evaluate(test, test_labels, 100, verbose=0)
    print(json.dumps({"loss": loss, "accuracy": accuracy}))


if __name__ == "__main__":
    main()
