# %%
import random
random.seed(1)
# %% hyper-parameters
learning_rate = 1e-2
n_epochs = 10
# %%
history = []
for epoch in range(n_epochs):
    acc = 0.5 + learning_rate * epoch + random.gauss(0, 0.01)
    history.append(acc)
    print("Epoch {}/{} - loss: {:.4f} - val_accuracy: {:.4f}".format(epoch + 1, n_epochs, 1 - acc, acc))
# %%
print("final accuracy", history[-1])
