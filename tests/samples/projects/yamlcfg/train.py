import random, sys, yaml
cfg = yaml.safe_load(open(sys.argv[1] if len(sys.argv) > 1 else "config.yaml"))
random.seed(cfg["seed"])
for it in range(cfg["iters"]):
    print("iter %d | train_loss %.4f | val_acc %.4f" % (it, 1 / (it + 1), 0.8 - abs(cfg["learning_rate"] - 3e-3) * 10 + random.gauss(0, 0.01)))
