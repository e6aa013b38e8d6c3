import wandb
for step in range(3):
    val_bpb = 3 - step
    wandb.log({"step": step, "val/bpb": val_bpb})
