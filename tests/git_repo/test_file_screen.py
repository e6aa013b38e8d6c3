"""Names: what is a secret, what are weights, and the near misses that are code or data."""

from __future__ import annotations

import pytest

from autoresearch.git_repo.snapshot import is_checkpoint, is_secret

SECRETS = """.env .env.local cfg/.env.prod .ENV prod.env .env.sh server.pem certs/Server.PEM id_rsa id_rsa.pub
id_rsa_work id_ed25519 id_ed25519.pub tls.key credentials credentials.json credentials.toml
.credentials.json aws_dir/.aws/config .netrc .hf_token hf_token github-token.txt token .token
token.json api.token .git-credentials .pypirc .ssh/known_hosts"""

NOT_SECRETS = """.env.example .env.sample deploy.env.template environment.py env.py .envrc.md tokenizer.json
tokenizer.py tokens.txt tokens token.py special_tokens_map.json added_tokens.json detokenize.sh
credentials.py credentials_test.py keys.py monkey.txt key.json keyboard pem.py my_id_rsa.py grid_rsa
turkey hockey.csv .ssh_config.md aws/config"""

WEIGHTS = """model.ckpt out/m.safetensors model-00001-of-00002.SAFETENSORS checkpoints/last.bin
a/saved_checkpoints/x.json run/global_step_10/actor/model.bin checkpoint-500/trainer_state.json
megatron/iter_0000100/x.distcp global_step5/x"""

NOT_WEIGHTS = """checkpoint.py checkpoints/__init__.py checkpoints/load.yaml ckpt/a.txt checkpoints.md
global_step/x.bin checkpointing/x.bin my_checkpoints/x.txt global_step_x/y safetensors/x
model.ckpt.py iter_/x checkpoints saved/x.bin checkpoint-final.txt model.pt"""


@pytest.mark.parametrize(("names", "secret"), [(SECRETS, True), (NOT_SECRETS, False)])
def test_secrets_and_their_near_misses(names: str, secret: bool) -> None:
    assert [path for path in names.split() if is_secret(path) is not secret] == []


@pytest.mark.parametrize(("names", "weights"), [(WEIGHTS, True), (NOT_WEIGHTS, False)])
def test_weights_and_their_near_misses(names: str, weights: bool) -> None:
    assert [path for path in names.split() if is_checkpoint(path) is not weights] == []
