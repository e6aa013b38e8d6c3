import argparse, json, random
ap = argparse.ArgumentParser()
ap.add_argument("--lr", type=float, default=1e-4, help="learning rate")
ap.add_argument("--temperature", type=float, default=1.0)
args = ap.parse_args()
for s in range(20):
    print(json.dumps({"step": s, "loss": 1 / (s + 1), "mean_return": 10 - abs(args.lr - 3e-4) * 1e4 + random.gauss(0, 0.1)}), flush=True)
