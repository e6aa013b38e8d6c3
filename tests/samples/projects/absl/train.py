import logging, random
from absl import app, flags
FLAGS = flags.FLAGS
flags.DEFINE_float("learning_rate", 3e-4, "lr")
flags.DEFINE_integer("num_envs", 16, "envs")
flags.DEFINE_float("gae_lambda", 0.95, "")
def main(_):
    for i in range(20):
        logging.warning("update %d episode_return=%.2f", i, 100 - abs(FLAGS.learning_rate - 1e-3) * 1e4 + random.gauss(0, 1))
app.run(main)
