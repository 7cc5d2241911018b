"""Images per second of TensorFlow with Keras 3 on the networks of workflows/models, like bench/torch_peer.py: MultiWorkerMirroredStrategy with rings, one thread per rank.

    mpirun -np 2 PYTHON bench/tensorflow_peer.py mlp|lenet|resnet20 [--batch 64] [--steps 50] [--compile]
    PYTHON bench/tensorflow_peer.py sgemm        GFLOP/s of its product of matrices, like bench/torch_sgemm.py
"""

import argparse
import gzip
import json
import os
import pathlib
import time

import numpy

RANK, RANKS = (int(os.environ.get(f"OMPI_COMM_WORLD_{name}", default)) for name, default in (("RANK", 0), ("SIZE", 1)))
if RANKS > 1:
    first = int(os.environ["MASTER_PORT"])
    workers = [f"127.0.0.1:{first + rank}" for rank in range(RANKS)]
    os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": workers}, "task": {"type": "worker", "index": RANK}})
os.environ |= {"KERAS_BACKEND": "tensorflow", "CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "3"}

import keras  # noqa: E402
import tensorflow as tf  # noqa: E402
from keras import layers  # noqa: E402


def mlp():
    return [layers.Flatten(), layers.Dense(512, "relu"), layers.Dense(512, "relu"), layers.Dense(10)]


def lenet():
    return [layers.Conv2D(32, 3, activation="relu"), layers.Conv2D(64, 3, activation="relu"), layers.MaxPooling2D(2), layers.Flatten(),
            layers.Dense(128, "relu"), layers.Dense(10)]


class Block(layers.Layer):
    def __init__(self, outputs, stride, projects):
        super().__init__()
        conv = lambda size, stride=1: layers.Conv2D(outputs, size, stride, "same", use_bias=False)
        self.main = keras.Sequential([conv(3, stride), layers.BatchNormalization(), layers.ReLU(), conv(3), layers.BatchNormalization()])
        self.skip = keras.Sequential([conv(1, stride), layers.BatchNormalization()] if projects else [layers.Identity()])

    def call(self, x, training=None):
        return tf.nn.relu(self.main(x, training=training) + self.skip(x, training=training))


def resnet20():
    blocks = [Block(outputs, 2 if outputs > 16 and i == 0 else 1, outputs > 16 and i == 0) for outputs in (16, 32, 64) for i in range(3)]
    return [layers.Conv2D(16, 3, 1, "same", use_bias=False), layers.BatchNormalization(), layers.ReLU(), *blocks, layers.GlobalAveragePooling2D(), layers.Dense(10)]


MODELS = {"mlp": mlp, "lenet": lenet, "resnet20": resnet20}


def load(folder):
    """(N, 28, 28, 1) float32, normalised; (N,) int32."""
    read = lambda name: gzip.open(pathlib.Path(folder) / f"train-{name}-ubyte.gz").read()
    images = numpy.frombuffer(read("images-idx3")[16:], numpy.uint8).reshape(-1, 28, 28, 1)
    return (images.astype("f4") / 255 - 0.2860) / 0.3530, numpy.frombuffer(read("labels-idx1")[8:], numpy.uint8).astype("i4")


def sgemm(size=512):
    a, b = tf.random.normal((size, size)), tf.random.normal((size, size))
    multiply = tf.function(tf.matmul)
    error = abs(multiply(a, b).numpy() - a.numpy().astype("f8") @ b.numpy().astype("f8")).max() / size**0.5
    times = []
    for _ in range(100):
        start = time.perf_counter()
        multiply(a, b).numpy()
        times.append(time.perf_counter() - start)
    return {"version": tf.__version__, "gflops": 2 * size**3 / min(times) / 1e9, "error": float(error)}


def train(args, images, labels):
    rings = tf.distribute.experimental.CommunicationOptions(implementation=tf.distribute.experimental.CommunicationImplementation.RING)
    strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=rings) if RANKS > 1 else tf.distribute.get_strategy()
    with strategy.scope():
        model = keras.Sequential([keras.Input((28, 28, 1)), *MODELS[args.model]()])
        optimizer = keras.optimizers.SGD(0.01, momentum=0.9)
        optimizer.build(model.trainable_variables)

    @tf.function(jit_compile=args.compile)
    def gradients(pictures, wanted):
        with tf.GradientTape() as tape:
            scores = model(pictures, training=True)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(wanted, scores))
        return loss, [gradient / RANKS for gradient in tape.gradient(loss, model.trainable_variables)]  # Keras sums the gradients of all ranks

    def replica(pictures, wanted):
        loss, shares = gradients(pictures, wanted)
        optimizer.apply(shares, model.trainable_variables)
        return loss

    step = tf.function(lambda pictures, wanted: strategy.run(replica, (pictures, wanted)))
    order = numpy.random.default_rng(1 + RANK).permutation(len(labels))
    for number in range(args.warmup + args.steps):
        if number == args.warmup:
            start = time.perf_counter()
        batch = order[number * args.batch % (len(labels) - args.batch):][:args.batch]
        loss = step(tf.constant(images[batch]), tf.constant(labels[batch]))
    loss = float(loss.numpy())
    return {"images_per_s": round(args.steps * args.batch * RANKS / (time.perf_counter() - start), 1), "loss": loss}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model", choices=[*MODELS, "sgemm"])
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--batch", type=int, default=64, help="per rank")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--compile", action="store_true", help="gradients are computed by XLA")
    args = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    keras.utils.set_random_seed(0)
    result = sgemm() if args.model == "sgemm" else train(args, *load(args.data))
    if RANK == 0:
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
