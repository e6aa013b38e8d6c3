import click, random
@click.command()
@click.option("--learning-rate", default=1e-3, show_default=True)
@click.option("--kl-coef", default=0.02)
@click.option("--epochs", default=5)
@click.option("--group-size", default=8)
def main(learning_rate, kl_coef, epochs, group_size):
    for epoch in range(epochs):
        print(f"epoch: {epoch} val_reward: {0.5 + 0.01*epoch - abs(learning_rate-2e-3)*10 + random.gauss(0,.01)}")
if __name__ == "__main__":
    main()
