"""Secrets of many kinds, each as it stands in a text; none was ever anybody's."""

from __future__ import annotations

HEX40 = "3f9a1c7e5b2d8064" + "a9e1f3c5d7b90246e8ac1357"
WANDB = "9b8c7d6e5f4a3b2c" + "1d0e9f8a7b6c5d4e3f2a1b0c"
JWT = "eyJ" + "hbGciOiJIUzI1NiJ9.eyJ" + "zdWIiOiIxMjM0In0.dBjftJeZ4CVPmB92K27uhbUJU1p1r"
PEM_BODY = "MIIEowIBAAKCAQEAx7Vb3Qf9Zk2LmN8pR4sT6uW1yA5cE7gH9jK0nP2qS4vX6zB8"
PEM = f"-----BEGIN RSA PRIVATE KEY-----\n{PEM_BODY}\n-----END RSA PRIVATE KEY-----"

# kind -> (the text, what must not be seen of it)
SECRETS: dict[str, tuple[str, str]] = {
    "flag": ("train --token tok9f27ac51d3", "tok9f27ac51d3"),
    "flag with a sign": (f"train --wandb-key={HEX40} --lr 1", HEX40),
    "assignment": ("OPENAI_API_KEY=oa8Kd02mPq77 python train.py", "oa8Kd02mPq77"),
    "assigned password": ("export DB_PASSWORD=hunter2horse99", "hunter2horse99"),
    "login": (f"wandb login {WANDB}", WANDB),
    "url": ("git clone https://me:gitpw4411zz@example.org/x.git", "gitpw4411zz"),
    "query": ("GET https://example.org/v1?access_token=qx81ZZpw03 HTTP/1.1", "qx81ZZpw03"),
    "hugging face": ("401 for hf_" + "abcdefghijklmnopqrstuvwxyzABCDEFGH", "hf_" + "abcdefghijklmnop"),
    "openai": ("Incorrect API key provided: sk-proj-" + "aB3dE6gH9jK2mN5pQ8sT", "sk-proj-" + "aB3dE6"),
    "anthropic": ("x-api-key sk-ant-api03-" + "x9" * 20, "sk-ant-api03-" + "x9x9"),
    "github": ("remote: ghp_" + "abcdefghijklmnopqrstuvwxyz0123456789", "ghp_" + "abcdefghij"),
    "github, new": ("remote: github_pat_" + "11ABCDEFG0abcdefghij_klmnop", "github_pat_" + "11ABCDE"),
    "gitlab": ("remote: glpat-" + "Ab3dE6gH9jK2mN5pQ8sT", "glpat-" + "Ab3dE6gH"),
    "aws": ("The key AKIA" + "IOSFODNN7EXAMPLE is not known", "AKIA" + "IOSFODNN7"),
    "aws, secret": ("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCY", "wJalrXUtnFEMI"),
    "slack": ("posted as xoxb-" + "123456789012-abcdefGHIJ", "xoxb-" + "123456789012"),
    "slack, hook": ("https://hooks." + "slack.com/services/T00AA11BB/B22CC33DD/xYz0123456789abcdefgh", "xYz0123456789"),
    "google": ("key=AIza" + "SyA1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q", "AIza" + "SyA1b2C3"),
    "web token": (f"cookie {JWT}", JWT[40:]),
    "bearer": ("Authorization: Bearer abcdefgh12345678", "abcdefgh12345678"),
    "basic": ("Authorization: Basic dXNlcjpwYXNzd29yZDk5", "dXNlcjpwYXNzd29yZDk5"),
    "json": ('{"password": "jsonpw7781kk", "lr": 0.1}', "jsonpw7781kk"),
    "curl": ("curl -u admin:curlpw5562mm https://example.org", "curlpw5562mm"),
    "prose": ("login failed with token prs7741aab90cd", "prs7741aab90cd"),
    "private key": (PEM, PEM_BODY),
}
