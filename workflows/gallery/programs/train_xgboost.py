"""train_xgboost.py FEATURES ROUNDS: boosts trees; saves out/model_ROUND.ubj every 10 rounds, and continues from the newest one."""

import glob
import os
import sys

import numpy
import xgboost
from sklearn.metrics import accuracy_score

features, rounds = numpy.load(sys.argv[1]), int(sys.argv[2])
train = xgboost.DMatrix(features["x"], features["y"])
os.makedirs("out", exist_ok=True)
saved = max(glob.glob("out/model_*.ubj"), key=os.path.getmtime, default=None)
done = xgboost.Booster(model_file=saved).num_boosted_rounds() if saved else 0
print(f"starts after round {done}", flush=True)
model = xgboost.train({"objective": "multi:softprob", "num_class": 10, "max_depth": 5, "eta": 0.1}, train, rounds - done, xgb_model=saved,
                      callbacks=[xgboost.callback.TrainingCheckPoint("out", interval=10)])
print(f"accuracy {accuracy_score(features['expected'], model.predict(xgboost.DMatrix(features['tests'])).argmax(1)):.3f}")
model.save_model("model.ubj")
