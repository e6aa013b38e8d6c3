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
    # forms of an Authorization header, of URLs and of files, whatever the service
    "authorization, any scheme": ("Authorization: token t0k3nabcdef99", "t0k3nabcdef99"),
    "authorization, signed": ("authorization: AWS4-HMAC-SHA256 Credential=AK/2, Signature=fe5f80f77d5fa3", "fe5f80f7"),
    "authorization, in JSON": ('{"Authorization": "ApiKey aGVsbG86d29ybGQ5"}', "aGVsbG86d29ybGQ5"),
    "authorization, of curl": ("curl -H 'Proxy-Authorization: Digest qwerty123456' x.org", "qwerty123456"),
    "netrc": ("machine api.wandb.ai\n  login user\n  password netrcpw123abc", "netrcpw123abc"),
    "netrc, one line": ("machine github.com login me password netrcpw123abc", "netrcpw123abc"),
    "url, token for user": ("git clone https://4f8a7c6b5d4e3f2a1b0c@example.org/x.git", "4f8a7c6b5d4e3f2a1b0c"),
    "url, password with a slash": ("postgres://me:pa/ss9/word@db.example.org:5432/x", "ss9/word"),
    "url, password with an at": ("redis://:p@ssw0rd@cache.example.org/0", "ssw0rd"),
    "azure, signed": ("https://a.blob.core.windows.net/c?sv=2024&sig=Ab3dE6gH9%2FjK2mN5pQ8s%3D", "Ab3dE6gH9"),
    "aws, signed": ("https://b.s3.amazonaws.com/k?X-Amz-Signature=fe5f80f77d5fa3beca038a", "fe5f80f77d5fa3"),
    "npm, file": ("//registry.example.org/:_auth=dXNlcjpwYXNzd29yZDk5Zz09", "dXNlcjpwYXNz"),
    "telegram": ("https://api.telegram.org/bot123456789:AAF" + "x9Yz0Aa1Bb2Cc3Dd4Ee5Ff6Gg7Hh8Ii9/send", "x9Yz0Aa1Bb2"),
    "discord, hook": ("https://discord.com/api/webhooks/" + "1122334455667788/aBcD3fGh1jKlMn0pQrStUv", "aBcD3fGh1jKl"),
    "teams, hook": ("https://x.webhook.office.com/webhookb2/" + "1f2e3d4c-aa@bb/IncomingWebhook/9f8e7d6c", "9f8e7d6c"),
    # formats of services: ours, and those of gitleaks' rules
    "hugging face, oauth": ("token hf_oauth_" + "aB3dE6gH9jK2mN5pQ8sTuVwX", "aB3dE6gH9jK2"),
    "stripe": ("sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc", "4eC39HqLyjWD"),
    "sendgrid": ("SG." + "ngeVfQFYQlKU0ufo8x5d1A.TwL2iGABf9DHoTf-09kqeF8tAmbihYzrnopKc-1s5cr", "TwL2iGABf9DH"),
    "databricks": ("dapi" + "b7e2905c4fa1d836" + "1c9d8e7f6a5b4c3d", "b7e2905c4fa1d836"),
    "docker": ("dckr_pat_" + "aB3dE6gH9jK2mN5pQ8sTuVwXyZ0", "aB3dE6gH9jK2"),
    "vault": ("X-Vault: hvs." + "CAESIJlU9JMYEhOPYv4igdhm9PnZDrabYTobQ4Ymnlq1qY", "JlU9JMYEhOPYv"),
    "digital ocean": ("dop_v1_" + "36f58b2a70e9d14c36f58b2a70e9d14ce5d0c7b2f98a6143e5d0c7b2f98a6143", "36f58b2a70e9"),
    "grafana": ("glc_" + "eyJvIjoiMTIzNDU2IiwibiI6InRva2VuIiwiayI6ImFCM2RFNmdIOWpLMm1ONSJ9", "eyJvIjoiMTIz"),
    "perplexity": ("pplx-" + "aB3dE6gH9jK2mN5pQ8sTuVwXyZ0aB3dE6gH9jK2mN5pQ8sTu", "aB3dE6gH9jK2mN5pQ8sT"),
    "shopify": ("shpat_" + "b7e2905c4fa1d836" + "0c9d8e7f6a5b4c3d", "b7e2905c4fa1d836"),
    "linear": ("lin_api_" + "aB3dE6gH9jK2mN5pQ8sTuVwXyZ0aB3dE6gH9jK2m", "aB3dE6gH9jK2mN5p"),
    "notion": ("ntn_" + "12345678901aB3dE6gH9jK2mN5pQ8sTuVwXyZ0aB3dE6gH", "aB3dE6gH9jK2mN5p"),
    "postman": ("PMAK-" + "3f9a1c7e5b2d8064a9e1f3c5-d7b90246e8ac13573f9a1c7e5b2d8064a9", "d7b90246e8ac1357"),
    "azure, client": ("secret Ab1" + "8Q~x9Yz0Aa1Bb2Cc3Dd4Ee5Ff6Gg7Hh8Ii9Jj", "x9Yz0Aa1Bb2"),
    "datadog": ("datadog_app = " + HEX40, HEX40),
    "heroku": ("HRKU-AA" + "x9Yz0Aa1Bb2Cc3Dd4Ee5Ff6Gg7Hh8Ii9Jj0Kk1Ll2Mm3Nn4Oo5Pp6Qq7Rr8"[:58], "x9Yz0Aa1Bb2Cc3"),
    "age": ("AGE-SECRET-KEY-1" + "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L" * 2, "QPZRY9X8GF2TV"),
}
