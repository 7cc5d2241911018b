"""One rank of a test of Horovod's interface for TensorFlow and Keras: `horovod_tensorflow_rank.py SCENARIO...`. Does not use dlflow.

Prints one JSON object for all scenarios. All ranks share a global batch, so a scenario gives the same on any number of them.
"""

import json
import os
import sys

import numpy as np
import tensorflow as tf
import horovod.keras
import horovod.tensorflow as hvd
import horovod.tensorflow.keras as hvd_keras
from raising import raises

BATCH, STEPS, RATE = 12, 4, 0.02
HAS_KERAS_3 = int(tf.__version__.split(".")[1]) >= 16
tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.threading.set_inter_op_parallelism_threads(2)


def pictures():
    """Of a global batch, and their labels, which a network can learn."""
    dice = np.random.default_rng(1)
    labels = np.arange(BATCH) % 4
    images = dice.random((BATCH, 6, 6, 1)) + (labels[:, None, None, None] == np.arange(6)[None, :, None, None])
    return images.astype(np.float32), labels.astype(np.int64)


def own(values):
    """This rank's part of a global batch."""
    return values[hvd.rank()::hvd.size()]


def model():
    """Each rank begins with weights of its own."""
    tf.keras.utils.set_random_seed(1 + hvd.rank())
    return tf.keras.Sequential([tf.keras.layers.Input((6, 6, 1)), tf.keras.layers.Conv2D(4, [3, 3], activation="relu"),
                                tf.keras.layers.MaxPooling2D(2), tf.keras.layers.Flatten(), tf.keras.layers.Dense(4, activation="softmax")])


def loss_of(network):
    images, labels = pictures()
    return float(tf.keras.losses.SparseCategoricalCrossentropy()(labels, network(images)))


def weights(network):
    """All of them, which must be the same on all ranks."""
    flat = np.concatenate([np.asarray(variable).reshape(-1) for variable in network.trainable_variables])
    from_first = np.asarray(hvd.broadcast(flat, 0))
    assert np.array_equal(flat, from_first), (flat, from_first)
    return [float(value) for value in flat]


def tape():
    """A loop of its own in a graph, as the published example for TensorFlow 2 has it."""
    images, labels = pictures()
    dataset = tf.data.Dataset.from_tensor_slices((own(images), own(labels))).repeat().batch(BATCH // hvd.size())
    network, loss, optimizer = model(), tf.losses.SparseCategoricalCrossentropy(), tf.optimizers.Adam(RATE)
    hvd.broadcast_variables(network.variables, root_rank=0)

    @tf.function
    def step(images, labels, is_first):
        with tf.GradientTape() as watching:
            value = loss(labels, network(images, training=True))
        watching = hvd.DistributedGradientTape(watching)
        gradients = watching.gradient(value, network.trainable_variables)
        optimizer.apply_gradients(zip(gradients, network.trainable_variables))
        if is_first:
            hvd.broadcast_variables(network.variables, root_rank=0)
            of_optimizer = optimizer.variables
            hvd.broadcast_variables(of_optimizer() if callable(of_optimizer) else of_optimizer, root_rank=0)
        return value

    for number, (some_images, some_labels) in enumerate(dataset.take(STEPS)):
        step(some_images, some_labels, number == 0)
    return {"loss": loss_of(network), "weights": weights(network)}


def fit():
    """Keras does the loop, as in the published example for Keras."""
    images, labels = pictures()
    dataset = tf.data.Dataset.from_tensor_slices((own(images), own(labels))).repeat().batch(BATCH // hvd.size())
    network = model()
    hvd.broadcast_variables(network.variables, root_rank=0)
    scaled = RATE * hvd.size()
    optimizer = hvd_keras.DistributedOptimizer(tf.optimizers.SGD(scaled, momentum=0.5), backward_passes_per_step=1,
                                               average_aggregated_gradients=True)
    assert isinstance(optimizer, tf.optimizers.SGD) and type(optimizer).__name__ == "SGD"
    beyond = {"jit_compile": False} if HAS_KERAS_3 else {"experimental_run_tf_function": False}
    network.compile(loss=tf.losses.SparseCategoricalCrossentropy(), optimizer=optimizer, metrics=["accuracy"], **beyond)
    rates = []
    watch = tf.keras.callbacks.LambdaCallback(on_batch_begin=lambda batch, logs: rates.append(float(np.asarray(optimizer.learning_rate))))
    warmup = hvd_keras.callbacks.LearningRateWarmupCallback(initial_lr=scaled, warmup_epochs=2, verbose=1)
    callbacks = [hvd_keras.callbacks.BroadcastGlobalVariablesCallback(0), hvd_keras.callbacks.MetricAverageCallback(), warmup, watch]
    history = network.fit(dataset, steps_per_epoch=2, epochs=3, callbacks=callbacks, verbose=0).history
    expected = [RATE * (1 + part * (hvd.size() - 1)) for part in (0.25, 0.5, 0.75, 1, 1, 1)]
    assert np.allclose(rates, expected), (rates, expected)
    assert np.allclose(history["lr"], expected[1::2]), history
    assert optimizer.momentum == 0.5
    return {"loss of fit": history["loss"], "accuracy": history["accuracy"], "weights": weights(network)}


def same_rate():
    """Without a warm-up, Keras trains to the same on any number of ranks."""
    images, labels = pictures()
    network = model()
    hvd.broadcast_variables(network.variables, root_rank=0)
    beyond = {"jit_compile": False} if HAS_KERAS_3 else {}
    network.compile(loss="sparse_categorical_crossentropy", optimizer=hvd.DistributedOptimizer(tf.optimizers.Adam(RATE)), metrics=["accuracy"], **beyond)
    average = horovod.keras.callbacks.MetricAverageCallback()
    history = network.fit(own(images), own(labels), batch_size=BATCH // hvd.size(), epochs=STEPS, shuffle=False, callbacks=[average], verbose=0).history
    file = f"{os.environ['FOLDER']}/{hvd.rank()}-of-{hvd.size()}.keras"
    network.save(file)
    assert type(tf.keras.models.load_model(file).optimizer) is tf.optimizers.Adam  # Horovod is not needed to load it
    return {"losses": history["loss"], "accuracies": history["accuracy"], "weights": weights(network)}


def collectives():
    """Every collective, eager and in a graph, and what flows back through them."""
    rank, size = hvd.rank(), hvd.size()
    total, in_graph = sum(range(1, size + 1)), tf.function(hvd.allreduce, reduce_retracing=True)
    for of_type in (tf.float16, tf.bfloat16, tf.float32, tf.float64, tf.int32, tf.int64):
        mine = tf.cast(tf.fill([2, 3], rank + 1), of_type)
        for call in (hvd.allreduce, in_graph):
            got = call(mine, op=hvd.Sum)
            assert got.dtype == of_type and got.shape == mine.shape and np.all(got.numpy() == total), got
        got = hvd.broadcast(mine, size - 1, name="last")
        assert got.dtype == of_type and np.all(got.numpy() == size), got
    assert np.allclose(hvd.allreduce(tf.fill([3], float(rank)), name="mean"), (size - 1) / 2)
    assert np.allclose(hvd.allreduce(float(rank), average=True), (size - 1) / 2)
    assert np.allclose(hvd.allreduce([1.0], op=hvd.Sum, prescale_factor=3.0, postscale_factor=0.5), 1.5 * size)
    assert np.all(hvd.allreduce(tf.fill([2], 60000.0), compression=hvd.Compression.fp16).numpy() == 60000)  # the sum is infinite
    assert np.all(hvd.broadcast([rank > 0], 0).numpy() == [False])
    value = tf.Variable([1.0, 2.0])
    with tf.GradientTape() as watching:
        result = tf.reduce_sum(hvd.allreduce(value, op=hvd.Sum) * (rank + 1.0))
    assert np.allclose(watching.gradient(result, value), total)

    words, unused = tf.Variable(tf.ones([4, 2])), tf.Variable(1.0)  # a gradient that is sparse, and one that is not there
    with hvd.DistributedGradientTape(tf.GradientTape(), op=hvd.Sum) as watching:
        result = tf.reduce_sum(tf.nn.embedding_lookup(words, [rank % 4]))
    sparse, none = watching.gradient(result, [words, unused])
    assert none is None and np.array_equal(tf.convert_to_tensor(sparse), [[1.0 if row < size else 0.0] * 2 for row in range(4)]), sparse
    with tf.GradientTape() as watching:
        result = value[0] * (rank + 1.0)
    tuned = hvd.DistributedGradientTape(watching, compression=hvd.Compression.fp16, gradient_predivide_factor=2.0)
    assert np.allclose(tuned.gradient(result, {"one": value})["one"], [total / size, 0])
    return {}


def momentum():
    """Where the rate changes, the sum of past updates is scaled with it: as if every update had had the new rate."""
    class Model:
        optimizer = tf.optimizers.SGD(1.0, momentum=0.5)
        variable = tf.Variable([8.0])

    schedule = hvd_keras.callbacks.LearningRateScheduleCallback(1.0, lambda epoch: 0.5 ** epoch, end_epoch=2)
    schedule.set_params({"steps": 1})
    Model.optimizer.build([Model.variable])
    setattr(schedule, "_model" if HAS_KERAS_3 else "model", Model)
    schedule.on_train_begin()
    values = []
    for epoch in range(3):
        schedule.on_epoch_begin(epoch)
        schedule.on_train_batch_begin(0)
        Model.optimizer.apply_gradients([(tf.constant([1.0]), Model.variable)])
        values.append(float(Model.variable[0]))
    assert values == [7.0, 6.25, 5.625 - 0.25], values  # updates 1, 0.5 * (0.5 * 1 + 1), 0.5 * (0.5 * 1.5 + 1)
    return {}


def refusals():
    """Ranks that disagree are named on all, also where a graph calls; what is not there names itself."""
    rank, size = hvd.rank(), hvd.size()
    if size > 1:
        text = "allreduce.x is not the same on all ranks: "
        raises(hvd.HorovodInternalError, text, lambda: hvd.allreduce(tf.ones(3 + (rank == 1)), name="x"))
        raises(tf.errors.OpError, text, lambda: tf.function(lambda: hvd.allreduce(tf.ones(3 + (rank == 1)), name="x"))())
    raises(ValueError, f"the ranks are 0 to {size - 1}", lambda: hvd.broadcast([1.0], size))
    raises(ValueError, "allreduce of text: string cannot be sent", lambda: hvd.allreduce("text", name="text"))
    inner = tf.optimizers.SGD(0.1)
    raises(NotImplementedError, "backward_passes_per_step: not supported here", lambda: hvd.DistributedOptimizer(inner, backward_passes_per_step=2))
    raises(NotImplementedError, "groups, num_groups: not supported here", lambda: hvd.DistributedOptimizer(inner, num_groups=2, groups=[1]))
    raises(ValueError, "op != Average", lambda: hvd.DistributedOptimizer(inner, op=hvd.Sum, gradient_predivide_factor=2.0))
    raises(TypeError, "takes an optimizer of Keras", lambda: hvd.DistributedOptimizer(tf.Variable(1.0)))
    raises(ValueError, "another framework", lambda: __import__("dlflow.horovod.basics").horovod.basics.init(object))
    for module in (hvd, hvd_keras, horovod.keras):
        for name, instead in {"allgather": "tf.concat", "Adasum": "hvd.Average", "elastic": "tf.train.Checkpoint", "join": "hvd.allreduce()",
                              "broadcast_object": "hvd.broadcast()", "load_model": "compile()"}.items():
            raises(AttributeError, f"hvd.{name} is beyond Horovod's published examples", lambda: getattr(module, name))
            raises(AttributeError, instead, lambda: getattr(module, name))
    raises(AttributeError, "ModelCheckpoint", lambda: hvd_keras.callbacks.BestModelCheckpoint)
    raises(AttributeError, "has no attribute 'alreduce'", lambda: hvd.alreduce)
    raises(ImportError, "it is for PyTorch, TensorFlow and Keras", lambda: __import__("horovod.mxnet"))
    return {}


if __name__ == "__main__":
    raises(ValueError, "Horovod has not been initialized; use hvd.init().", hvd.size)
    hvd.init()
    results = {scenario: globals()[scenario]() for scenario in sys.argv[1:]}
    hvd.shutdown()
    hvd.init()  # ranks meet again
    hvd.allreduce(1.0, name="again")
    print(json.dumps(results), flush=True)
