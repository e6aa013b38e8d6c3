"""What must not be in a record, and what must stay in it."""

from __future__ import annotations

import pytest

from autoresearch.records.secrets import MASK, mask_environment, mask_text

OPENAI = "sk-proj-" + "aB3dE6gH9jK2mN5pQ8sT"
HUGGING = "hf_" + "abcdefghijklmnopqrstuvwxyzABCDEFGH"
GITHUB = "ghp_" + "abcdefghijklmnopqrstuvwxyz0123456789"
AWS = "AKIA" + "IOSFODNN7EXAMPLE"
WEB_TOKEN = "eyJ" + "hbGciOiJIUzI1NiJ9.eyJ" + "zdWIiOiIxMjM0In0.dBjftJeZ4CVPmB92K27uhbUJU1p1r"
PEM = "-----BEGIN RSA " + "PRIVATE KEY-----\nMIIEow\nIBAAK\n-----END RSA " + "PRIVATE KEY-----"


@pytest.mark.parametrize(
    "name",
    [
        "HF_TOKEN",
        "WANDB_API_KEY",
        "OPENAI_APIKEY",
        "AWS_SECRET_ACCESS_KEY",
        "DB_PASSWORD",
        "db_passwd",
        "GITHUB_TOKEN",
        "MY_KEY",
        "KEY",
        "client-secret",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "BASIC_AUTH",
        "hfToken",
        "apiKey",
        "API_KEYS",
        "SSH_PASSPHRASE",
        "authtoken",
        "ANTHROPIC_AUTH_TOKEN",
        "TOKEN",
        "PGPASSWORD",
    ],
)
def test_variables_whose_name_says_secret(name: str) -> None:
    assert mask_environment({name: "x7"}) == {name: MASK}
    assert mask_environment({name: ""}) == {name: ""}


@pytest.mark.parametrize(
    "name",
    [
        "NUM_TOKENS",
        "max_tokens",
        "MAX_TOKEN_LEN",
        "TOKENIZER",
        "TOKENIZERS_PARALLELISM",
        "KEYWORD",
        "KEYBOARD",
        "AUTHOR",
        "GIT_AUTHOR_NAME",
        "MONKEY",
        "PAD_TOKEN",
        "EOS_TOKEN_ID",
        "PATH",
        "HOME",
        "CUDA_VISIBLE_DEVICES",
        "PASSES",
        "TURKEY",
        "SECRETARY",
    ],
)
def test_variables_whose_name_only_sounds_like_it(name: str) -> None:
    assert mask_environment({name: "x7"}) == {name: "x7"}


@pytest.mark.parametrize("secret", [OPENAI, HUGGING, GITHUB, AWS, WEB_TOKEN, PEM, "sk-ant-api03-" + "x9" * 20])
def test_values_that_look_like_keys(secret: str) -> None:
    assert mask_environment({"SETTING": f"a {secret} b"}) == {"SETTING": "a *** b"}
    assert mask_text(f"401 for {secret}, again") == "401 for ***, again"
    assert mask_text(f"'{secret}'") == "'***'"


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("train.py --api-key abc --lr 1", "train.py --api-key *** --lr 1"),
        ("train.py --api_key=abc --lr 1", "train.py --api_key=*** --lr 1"),
        ("--password hunter2", "--password ***"),
        ("--hf-token 'a b'", "--hf-token '***'"),
        ("HF_TOKEN=abc python t.py", "HF_TOKEN=*** python t.py"),
        ("export WANDB_API_KEY='0123'; ls", "export WANDB_API_KEY='***'; ls"),
        (
            "docker run -e HF_TOKEN=abc --env=MY_SECRET=x img",
            "docker run -e HF_TOKEN=*** --env=MY_SECRET=*** img",
        ),
        ("KEY=value", "KEY=***"),
        ("password=12345", "password=***"),
        ('PASSWORD="a \\" b" x', 'PASSWORD="***" x'),
        ("Password: hunter2", "Password: ***"),
        ('{"api_key": "abc", "token": "d"}', '{"api_key": "***", "token": "***"}'),
        (r"{\"api_key\": \"abc\"}", r"{\"api_key\": \"***\"}"),
        ("Authorization: Bearer abcdefgh12345", "Authorization: Bearer ***"),
        ("git clone https://me:pw@host/x.git", "git clone https://me:***@host/x.git"),
        ("token: a1b2c3d4e5f6a7b8c9", "token: ***"),
        ("a=1\nSECRET=x\nb=2", "a=1\nSECRET=***\nb=2"),
        ("trainer.token=abc", "trainer.token=***"),
    ],
)
def test_secrets_in_commands_and_logs(text: str, masked: str) -> None:
    assert mask_text(text) == masked
    assert mask_text(masked) == masked


@pytest.mark.parametrize(
    "text",
    [
        "",
        "python train.py data.prompt_key=prompt data.reward_fn_key=data_source --input_key question",
        "num_tokens=512 max_tokens: 1024 --max_tokens 99 tokens=a response/num_tokens:12",
        "tokenizer=Qwen/Qwen2.5-0.5B --tokenizer /models/x tokenizer: fast",
        "pad_token='<|endoftext|>' --eos_token </s> mask_token_id=5",
        "keyword=x --keyword y keyboard: z",
        "KeyError: 'token'",
        "sorted(x, key=lambda y: y)",
        "step:10 - actor/kl_loss:0.003 - token_level_scores:0.5 - key/mean:0.1",
        "HF_TOKEN=$HF_TOKEN WANDB_API_KEY=${WANDB_API_KEY} --token $(cat f)",
        "--use_auth_token True token=None",
        "invalid token: <|im_end|>",
        "auth: failed",
        "the secret is out, the key is lost, my token of thanks",
        "task-risk-aware-baseline-v12345678 sk-learn hf_hub_download_progress",
        "https://host:8080/path@v1 http://a/b:c",
        "commit 0123456789abcdef0123456789abcdef01234567",
        "password=",
        "author=me monkey=1",
    ],
)
def test_near_misses_stay(text: str) -> None:
    assert mask_text(text) == text


def test_long_text_of_any_kind_does_not_hang() -> None:
    """Each is a second or less; a pattern that backtracks over the whole text would take hours."""
    for text in (
        "a" * 200_000,
        "token:" * 3000,
        "'" * 50_000,
        'key="' * 10_000,
        "x://" * 10_000,
        "eyJ" * 50_000,
    ):
        assert len(mask_text(f"--password {text}")) > 0
