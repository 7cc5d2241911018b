"""A job of the study in an image with LBANN or Tarantella: the same network and data, on ranks that a program of the image starts. Fails with a message without an image.
Written from their documentation; so far only tried with stand-ins for both.

    in_image.py DATA        the folder with the two files, unpacked
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import time

LAYERS = {"mlp": [("dense", 512), ("dense", 512)], "lenet": [("convolution", 32), ("convolution", 64), ("pool", 2), ("dense", 128)]}
HELD_OUT = 0.1


def lbann(given, folder):
    import lbann
    x, labels = lbann.Input(data_field="samples"), lbann.Input(data_field="labels")
    for kind, size in LAYERS[given["model"]]:
        if kind == "dense":
            x = lbann.Relu(lbann.FullyConnected(x, num_neurons=size, has_bias=True))
        elif kind == "convolution":
            x = lbann.Relu(lbann.Convolution(x, num_dims=2, out_channels=size, kernel_size=3, stride=1, padding=0, has_bias=True))
        else:
            x = lbann.Pooling(x, num_dims=2, pool_dims_i=size, pool_strides_i=size, pool_mode="max")
    probabilities = lbann.Softmax(lbann.FullyConnected(x, num_neurons=10, has_bias=True))
    loss = lbann.CrossEntropy(probabilities, labels)
    accuracy = lbann.Metric(lbann.CategoricalAccuracy(probabilities, labels), name="accuracy", unit="%")
    model = lbann.Model(given["epochs"], layers=lbann.traverse_layer_graph([x, labels]), objective_function=loss, metrics=[accuracy],
                        callbacks=[lbann.CallbackPrint(), lbann.CallbackTimer()])
    data = lbann.reader_pb2.DataReader()
    data.reader.add(name="mnist", role="train", shuffle=True, data_filedir=str(folder), data_filename="train-images-idx3-ubyte",
                    label_filename="train-labels-idx1-ubyte", validation_fraction=HELD_OUT, fraction_of_data_to_use=1.0)
    data.reader[0].transforms.add().scale_and_translate.scale = 1 / (255 * 0.353)
    data.reader[0].transforms[0].scale_and_translate.translate = -0.286 / 0.353
    lbann.proto.save_prototext("experiment.prototext", trainer=lbann.Trainer(mini_batch_size=given["batch"], random_seed=given["seed"]), model=model,
                               data_reader=data, optimizer=lbann.SGD(learn_rate=given["lr"], momentum=0.9))
    command = ["mpirun", "-n", str(given["ranks"]), lbann.lbann_exe(), "--prototext=experiment.prototext"]
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    seconds = sum(map(float, re.findall(r"training epoch \d+ run time : ([\d.]+)s", printed)))
    return seconds, float(re.findall(r"validation accuracy : ([\d.]+)%", printed)[-1]) / 100


def tarantella(given, folder):
    """Runs on each rank."""
    import tarantella
    import tensorflow as tf
    tarantella.init()
    tf.random.set_seed(given["seed"])
    layers = tf.keras.layers
    make = {"dense": lambda size: layers.Dense(size, activation="relu"), "pool": layers.MaxPooling2D,
            "convolution": lambda size: layers.Conv2D(size, 3, activation="relu")}
    stack = [make[kind](size) for kind, size in LAYERS[given["model"]]]
    stack.insert(next(i for i, (kind, _) in enumerate(LAYERS[given["model"]]) if kind == "dense"), layers.Flatten())
    model = tarantella.Model(tf.keras.Sequential([tf.keras.Input((28, 28, 1)), *stack, layers.Dense(10)]))
    model.compile(optimizer=tf.keras.optimizers.SGD(given["lr"], momentum=0.9), loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                  metrics=[tf.keras.metrics.SparseCategoricalAccuracy()])
    images = tf.reshape(tf.io.decode_raw((folder / "train-images-idx3-ubyte").read_bytes()[16:], tf.uint8), (-1, 28, 28, 1))
    labels = tf.io.decode_raw((folder / "train-labels-idx1-ubyte").read_bytes()[8:], tf.uint8)
    images, held_out = (tf.cast(images, tf.float32) / 255 - 0.286) / 0.353, int(len(labels) * HELD_OUT)
    data = tf.data.Dataset.from_tensor_slices((images, labels))
    start = time.perf_counter()
    model.fit(data.skip(held_out).shuffle(len(labels)).batch(given["batch"]), epochs=given["epochs"], verbose=0)
    seconds = time.perf_counter() - start
    return seconds, model.evaluate(data.take(held_out).batch(given["batch"]), verbose=0)[1], tarantella.get_rank()


def main():
    given, folder = json.loads(pathlib.Path(os.environ["DLFLOW_WITH"]).read_text()), pathlib.Path(sys.argv[1])
    row, rank = {"way": given["way"], "ranks": given["ranks"], "repeat": given["seed"]}, 0
    if given["seed"] == 0:
        row["not_run"] = "no image given"
    elif given["way"] == "tarantella" and len(sys.argv) == 2:
        return subprocess.run(["tarantella", "-n", str(given["ranks"]), "--", *sys.argv, "rank"], check=True)
    else:
        seconds, accuracy, *ranks = (lbann if given["way"] == "lbann" else tarantella)(given, folder)
        trained = given["epochs"] * (int.from_bytes((folder / "train-labels-idx1-ubyte").read_bytes()[4:8], "big") * (1 - HELD_OUT))
        row, rank = row | {"images_per_s": trained / seconds, "accuracy": accuracy, "exposed": None}, sum(ranks)
    if rank == 0:
        pathlib.Path("row.json").write_text(json.dumps(row))


main()
