import random
import typer
def main(lr: float = 1e-3, beta: float = 0.04, num_steps: int = 20, batch_size: int = 32, name: str = "x"):
    for i in range(num_steps):
        print("step:", i, "eval/accuracy:", 0.7 - abs(lr - 2e-3) * 10 + random.gauss(0, 0.01))
typer.run(main)
