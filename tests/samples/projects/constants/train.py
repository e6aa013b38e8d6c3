import random
LR = 3e-4
BETA = 0.04
STEPS = 20
w = 0.0
for step in range(STEPS):
    w += LR * 100 + random.gauss(0, 0.01)
    print(f"step {step} loss {1 / (1 + w):.4f}")
print(f"score {w}")
