"""What must not be in a record, and what must stay in it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from autoresearch.runner import masking
from autoresearch.runner.masking import MASK, mask_environment, mask_text, mask_values, secrets_in
from tests.secret_kinds import LEAKING, UNSEEN
from tests.secret_samples import SECRETS

OPENAI = "sk-proj-" + "aB3dE6gH9jK2mN5pQ8sT"
HUGGING = "hf_" + "abcdefghijklmnopqrstuvwxyzABCDEFGH"
GITHUB = "ghp_" + "abcdefghijklmnopqrstuvwxyz0123456789"
AWS = "AKIA" + "IOSFODNN7EXAMPLE"
WEB_TOKEN = "eyJ" + "hbGciOiJIUzI1NiJ9.eyJ" + "zdWIiOiIxMjM0In0.dBjftJeZ4CVPmB92K27uhbUJU1p1r"
PEM = "-----BEGIN RSA " + "PRIVATE KEY-----\nMIIEow\nIBAAK\n-----END RSA " + "PRIVATE KEY-----"


SAY_SECRET = """
    HF_TOKEN WANDB_API_KEY OPENAI_APIKEY AWS_SECRET_ACCESS_KEY DB_PASSWORD db_passwd MY_KEY KEY client-secret hfToken
    apiKey GOOGLE_APPLICATION_CREDENTIALS BASIC_AUTH API_KEYS SSH_PASSPHRASE authtoken ANTHROPIC_AUTH_TOKEN TOKEN
    PGPASSWORD
"""
SOUND_LIKE_IT = """
    NUM_TOKENS max_tokens MAX_TOKEN_LEN TOKENIZER TOKENIZERS_PARALLELISM KEYWORD KEYBOARD AUTHOR GIT_AUTHOR_NAME MONKEY
    PAD_TOKEN EOS_TOKEN_ID PATH HOME CUDA_VISIBLE_DEVICES PASSES TURKEY SECRETARY
"""


def test_variables_whose_name_says_secret() -> None:
    for name in SAY_SECRET.split():
        assert mask_environment({name: "x7"}) == {name: MASK}
        assert mask_environment({name: ""}) == {name: ""}


def test_variables_whose_name_only_sounds_like_it() -> None:
    names = dict.fromkeys(SOUND_LIKE_IT.split(), "x7")
    assert mask_environment(names) == names


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
        ("KEY=x7value", "KEY=***"),
        ("password=12345", "password=***"),
        ("password:          hunter2secret", "password:          ***"),
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
        "next token id 151645 token <|im_end|> special token <|reserved_special_token_123|>",
        "Missing key(s) in state_dict: 'encoder.layer12.attention.self.query1.weight'; KeyError: 'step_10000000'",
        "n_kv_heads=8 num_keys=12 ms/token 12.3456789 token_acc: 0.9123 reward/secret_word_accuracy: 0.51234567",
        "HF_TOKEN not set, using anonymous; WANDB_API_KEY missing; run exp12345678",
        "api_key is not set; see https://docs.wandb.ai/guides/v2; access token expired at 2026-11-29T12:00:00Z",
        'token = base64.b64encode(json.dumps({"episode_uuid": key}).encode()).decode()',
        "https://registry.example.org/@scope/pkg https://user@example.org git@github.com:me/x.git",
        "Authorization: none; authorization failed: see https://hooks.example.org/docs",
        "see https://docs.example.org/webhooks/overview?page=2&key=a",
        "login to continue; password required",
        "uuid 0b7c0f6e-3a52-4d0e-9d1b-7f6a2f4c9e11 run 20261126-070000-a1b2c3d4 actor 63b9a8c01000000",
        "linear.weight sha 3f9a1c7e5b2d8064a9e1f3c5d7b90246e8ac1357 heroku sourcegraph snyk",
        "Try a basic reinforcement baseline; the bearer of bad news",
        "client = OpenAI(api_key=os.environ['OPENAI_API_KEY'])",
        "token = tokenizer.next_token(state)",
        "model = load(path, token=args.hf_token, revision='main')",
        "autoresearch campaign add one --set KEY=VALUE",
        "export HF_TOKEN=... before the run",
        "cache_key=3f9a1c7e5b2d8064a9e1f3c5d7b90246e8ac1357",
        "branch ajet/20261121-exp/exp at 3f9a1c7e5b2d8064a9e1f3c5d7b90246e8ac1357",
        "sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "run exp-k3v9q2 in /data/results/exp-k3v9q2, session ajet_exp_k3v9q2",
        "wandb login --relogin; wandb login --host https://wandb.example.org",
        "data.reward_fn_key=data_source --sort-key=validation_accuracy_top_1_mean",
        "step:2 - actor/kl_loss:0.0023456789012 - critic/rewards/mean:0.51012345678901234",
    ],
)
def test_near_misses_stay(text: str) -> None:
    assert mask_text(text) == text


@pytest.mark.parametrize("kind", SECRETS)
def test_secrets_of_every_kind(kind: str) -> None:
    text, secret = SECRETS[kind]
    assert secret in text
    for around in (text, f"E   RuntimeError: {text}", f"{text}\nnext line", f'log("{kind}") {text}'):
        masked = mask_text(around)
        assert secret not in masked
        assert mask_text(masked) == masked


def test_secrets_of_kinds_that_no_rule_was_written_for() -> None:
    masked = {kind: mask_text(text) for kind, (text, _) in UNSEEN.items()}
    assert {kind for kind, (_, secret) in UNSEEN.items() if secret in masked[kind]} == {*LEAKING}
    assert len(UNSEEN) == 93 and len(LEAKING) <= 5
    assert [kind for kind, text in masked.items() if mask_text(text) != text] == []


def test_names_and_what_is_executed_stay() -> None:
    value = {"token": "--token abcdef12", "files": {"a.py": "TOKEN=abcdef12"}, "n": [1, None, "TOKEN=abcdef12"]}
    masked = {"token": "--token ***", "files": {"a.py": "TOKEN=abcdef12"}, "n": [1, None, "TOKEN=***"]}
    assert mask_values(value, {"files"}) == masked


def test_what_is_known_for_a_secret_is_masked_wherever_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    command = "HF_TOKEN=abc12345xyz python t.py --password 'pw 123' --api-key q9w8e7r6t5 --lr 1"
    assert secrets_in(command) == ["abc12345xyz", "pw 123", "q9w8e7r6t5"]
    masking.learn(secrets_in(command))
    assert mask_text("refused: abc12345xyz, q9w8e7r6t5; lr 1") == "refused: ***, ***; lr 1"
    for name, value in (("MY_SECRET", "s3cr3tvalue"), ("SSH_AUTH_SOCK", "/tmp/agent.1234"), ("AUTH", "enabled")):
        monkeypatch.setenv(name, value)
    masking._known.cache_clear()
    assert mask_text("s3cr3tvalue in /tmp/agent.1234 enabled") == "*** in /tmp/agent.1234 enabled"


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """No test knows what another one learnt."""
    masking._learnt.clear()
    masking._known.cache_clear()
    yield
    masking._learnt.clear()
    masking._known.cache_clear()


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
