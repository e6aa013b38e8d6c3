import hydra, random
from omegaconf import DictConfig
@hydra.main(version_base=None, config_path="conf", config_name="config")
def main(cfg: DictConfig) -> None:
    for step in range(cfg.trainer.steps):
        print({"step": step, "reward/mean": 1 - abs(cfg.optim.lr - 2e-3) * 100 + random.gauss(0, 0.01)})
if __name__ == "__main__":
    main()
