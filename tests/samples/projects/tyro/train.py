import random
from dataclasses import dataclass
import tyro
@dataclass
class Args:
    exp_name: str = "ppo"
    seed: int = 1
    total_timesteps: int = 20
    learning_rate: float = 2.5e-4
    num_envs: int = 4
    gamma: float = 0.99
    gae_lambda: float = 0.95
    clip_coef: float = 0.2
    ent_coef: float = 0.01
    anneal_lr: bool = True
args = tyro.cli(Args)
for t in range(args.total_timesteps):
    print(f"global_step={t}, episodic_return={[random.gauss(10, 1)]}")
    print("SPS:", 100)
