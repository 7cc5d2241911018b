"""The network of models/unet-climate.yaml in Keras 2, as a script for Horovod: train_keras.py FOLDER EPOCHS PREDICTIONS.npy."""

import sys

import numpy as np
import tensorflow as tf
import horovod.tensorflow.keras as hvd
from tensorflow.keras import layers

BATCH, RATE = 32, 0.005


def two(x, channels):
    for _ in range(2):
        x = layers.Conv2D(channels, 3, padding="same", use_bias=False)(x)
        x = layers.ReLU()(layers.BatchNormalization(momentum=0.9, epsilon=1e-5)(x))
    return x


def unet():
    x = layers.Input((32, 32, 2))
    down1 = two(x, 16)
    down2 = two(layers.MaxPool2D()(down1), 32)
    up2 = layers.Conv2DTranspose(32, 2, 2)(two(layers.MaxPool2D()(down2), 64))
    right2 = two(layers.Concatenate()([down2, up2]), 32)
    up1 = layers.Conv2DTranspose(16, 2, 2)(right2)
    right1 = two(layers.Concatenate()([down1, up1]), 16)
    return tf.keras.Model(x, layers.Flatten()(layers.Conv2D(1, 1)(right1)))


def main():
    folder, epochs, target = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    hvd.init()
    tf.keras.utils.set_random_seed(1 + hvd.rank())  # each rank has its own order
    train_x, test_x = (np.moveaxis(np.load(f"{folder}/{name}.npy"), 1, -1) for name in ("train_x", "test_x"))
    mean, deviation = (getattr(train_x, name)((0, 1, 2)) for name in ("mean", "std"))
    share = len(train_x) // hvd.size()  # the same number of steps on each rank
    x, y = (values[hvd.rank()::hvd.size()][:share] for values in ((train_x - mean) / deviation, np.load(f"{folder}/train_y.npy")))
    batch = BATCH // hvd.size()
    rate = tf.keras.optimizers.schedules.CosineDecay(RATE, epochs * -(-share // batch))
    model = unet()
    model.compile(hvd.DistributedOptimizer(tf.keras.optimizers.Adam(rate)), "mse")
    callbacks = [hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()]
    model.fit(x, y, batch, epochs, verbose=2 if hvd.rank() == 0 else 0, callbacks=callbacks)
    if hvd.rank() == 0:
        np.save(target, model.predict((test_x - mean) / deviation, verbose=0))


main()
