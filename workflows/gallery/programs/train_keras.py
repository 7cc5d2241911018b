"""train_keras.py DATA EPOCHS: trains with Keras, whose BackupAndRestore saves out/backup after each epoch and continues from it."""

import gzip
import sys

import keras
import numpy

data, epochs = sys.argv[1], int(sys.argv[2])
x = numpy.frombuffer(gzip.open(f"{data}/train-images-idx3-ubyte.gz").read(), numpy.uint8, offset=16).reshape(-1, 28, 28, 1)[:20000] / 255
y = numpy.frombuffer(gzip.open(f"{data}/train-labels-idx1-ubyte.gz").read(), numpy.uint8, offset=8)[:20000]

model = keras.Sequential([keras.Input((28, 28, 1)), keras.layers.Conv2D(16, 3, activation="relu"), keras.layers.MaxPooling2D(), keras.layers.Flatten(),
                          keras.layers.Dense(10, activation="softmax")])
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(x, y, batch_size=64, epochs=epochs, verbose=2, callbacks=[keras.callbacks.BackupAndRestore("out/backup")])
model.save("model.keras")
