"""The files that train the model behind a black-box agent: written, and tried before any GPU is taken."""
