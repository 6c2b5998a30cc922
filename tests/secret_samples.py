"""Secrets that open nothing, put together here so that no scanner takes them for real ones."""

from __future__ import annotations

import base64

import msgspec

LETTERS = "Ab3dE5gH1jKlMn0pQrStUvWxYz2468ZyXwVuTsRqPoNmLkJiHgFeDcBa97531AaBbCcDdEeFfGgHhIiJj" * 4
HEX = "0123456789abcdef" * 8


def _part(value: object) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(value)).decode().rstrip("=")


def key_block(kind: str = "RSA PRIVATE KEY", lines: int = 20) -> str:
    body = "\n".join([LETTERS[:64]] * lines)
    return f"-----BEGIN {kind}-----\n{body}\n-----END {kind}-----"


JWT = f"{_part({'alg': 'HS256', 'typ': 'JWT'})}.{_part({'sub': '1', 'name': 'ada'})}.{LETTERS[:43]}"

MADE = {
    "Anthropic": "sk-ant-" + "api03-" + LETTERS[:93] + "AA",
    "Anthropic, OAuth": "sk-ant-" + "oat01-" + LETTERS[:80],
    "OpenAI project": "sk-" + "proj-" + LETTERS[:74] + "T3BlbkFJ" + LETTERS[:74],
    "OpenAI service": "sk-" + "svcacct-" + LETTERS[:74] + "T3BlbkFJ" + LETTERS[:74],
    "OpenAI, old": "sk-" + LETTERS[:20] + "T3BlbkFJ" + LETTERS[:20],
    "OpenRouter": "sk-or-" + "v1-" + HEX[:64],
    "DeepSeek": "sk-" + HEX[:32],
    "Stripe": "sk_" + "live_" + LETTERS[:24],
    "Stripe, restricted": "rk_" + "test_" + LETTERS[:24],
    "webhook": "whsec" + "_" + LETTERS[:32],
    "GitHub": "ghp" + "_" + LETTERS[:36],
    "GitHub, OAuth": "gho" + "_" + LETTERS[:36],
    "GitHub, fine-grained": "github_" + "pat_" + LETTERS[:82],
    "GitLab": "glpat" + "-" + LETTERS[:20],
    "GitLab, runner": "glrt" + "-" + LETTERS[:20],
    "Slack": "xoxb" + "-123456789012-123456789012-" + LETTERS[:24],
    "Slack, app": "xapp" + "-1-A0123456789-1234567890123-" + HEX[:64],
    "Slack, webhook": "https://hooks." + "slack.com/services/T00000000/B00000000/" + LETTERS[:24],
    "Google": "AIza" + LETTERS[:35],
    "Google, client": "GOCSPX" + "-" + LETTERS[:28],
    "Google, access": "ya29" + "." + LETTERS[:60],
    "AWS": "AKIA" + "Q3EGRXAMZLE24ABC",
    "AWS, session": "ASIA" + "Q3EGRXAMZLE24ABC",
    "Bedrock": "ABSK" + LETTERS[:120],
    "Azure": "abc" + "8Q~" + LETTERS[:34],
    "Hugging Face": "hf" + "_" + LETTERS[:34],
    "Groq": "gsk" + "_" + LETTERS[:52],
    "xAI": "xai" + "-" + LETTERS[:80],
    "Perplexity": "pplx" + "-" + LETTERS[:48],
    "Replicate": "r8" + "_" + LETTERS[:37],
    "LangSmith": "lsv2" + "_pt_" + HEX[:32] + "_" + HEX[:10],
    "npm": "npm" + "_" + LETTERS[:36],
    "Python packages": "pypi" + "-AgEI" + LETTERS[:80],
    "DigitalOcean": "dop" + "_v1_" + HEX[:64],
    "Databricks": "dapi" + HEX[:32],
    "SendGrid": "SG" + "." + LETTERS[:22] + "." + LETTERS[:43],
    "Shopify": "shpat" + "_" + HEX[:32],
    "Vault": "hvs" + "." + LETTERS[:95],
    "Telegram": "123456789" + ":AA" + LETTERS[:33],
    "Linear": "lin_" + "api_" + LETTERS[:40],
    "Grafana": "glsa" + "_" + LETTERS[:32] + "_" + HEX[:8],
    "Notion": "ntn" + "_" + "12345678901" + LETTERS[:35],
    "Atlassian": "ATATT3" + LETTERS[:186],
    "JWT": JWT,
    "private key": key_block(),
    "OpenSSH key": key_block("OPENSSH PRIVATE KEY", 6),
    "PGP key": key_block("PGP PRIVATE KEY BLOCK", 10),
}
"""By the service that makes it: the secret by itself."""

NAMED = {
    "password=hunter22": "hunter22",
    "PASSWORD: 'S3cr3t!pass'": "S3cr3t!pass",
    '{"password": "hunter22", "n": 1}': "hunter22",
    "pwd=12345678;Database=x": "12345678",
    f"api_key = {LETTERS[:32]}": LETTERS[:32],
    f"API key: {LETTERS[:32]}.": LETTERS[:32],
    f'"token":"{LETTERS[:30]}"': LETTERS[:30],
    f'{{\\"token\\": \\"{LETTERS[:30]}\\"}}': LETTERS[:30],
    f"admin_token={LETTERS[:20]}": LETTERS[:20],
    f"AccountKey={LETTERS[:86]}==;EndpointSuffix=x": LETTERS[:86],
    f"aws_secret_access_key={LETTERS[:40]}": LETTERS[:40],
    f"https://example.org/y?key={LETTERS[:20]}&a=b": LETTERS[:20],
    f"Authorization: Bearer {LETTERS[:40]}": LETTERS[:40],
    f"curl -H 'Authorization: Basic {LETTERS[:24]}=='": LETTERS[:24],
    f"sent as bearer {LETTERS[:30]} by hand": LETTERS[:30],
    "postgres://ada:hunter22@db:5432/x": "hunter22",
    "redis://:p@ss@w0rd@host/0": "p@ss@w0rd",
    "İ password=hunter22": "hunter22",
}
"""By what stands around it: the text, and the secret in it."""

HARMLESS = (
    "password: required",
    "Password: must have eight characters, one of them a digit.",
    "password=os.environ['DB_PASSWORD_2']",
    "password=${DB_PASSWORD_2}",
    "password=<your password>",
    "password: your-password-1",
    "password=xxxxxxxxxxx1",
    "password: correct-horse-battery",
    "password=[secret]",
    "the password is kept elsewhere",
    "max_tokens=4096 and tokens: 12, total_tokens: 1200",
    f"nextPageToken: {LETTERS[:20]}",
    f"page_token={LETTERS[:20]}",
    "token = get_token(user_id=12345678, kind='x1y2z3')",
    "secret=self.client_secret_value_1",
    "the secret: nobody knows",
    "postgres://user:${PASSWORD}@host/x",
    "see http://localhost:8080/v1 and https://example.org/a:b@c",
    "sk-learn-preprocessing-2024",
    "task-0123456789abcdefghijklmnop",
    "AKIA" + "IOSFODNN7EXAMPLE",
    "-----BEGIN PUBLIC KEY-----\nMFwwDQYJKoZIhvcNAQEB",
    "A file that begins with -----BEGIN PRIVATE KEY----- is one to look after.",
    "9c1185a5c5e9fc54612808977ee8f548b2258d31",
    "123e4567-e89b-12d3-a456-426614174000",
    "a bearer instrument is a document, and basic authentication is off",
    "tokenizer: gpt2-large-cased-model-1",
    "the key: value pair in /etc/config1/abcdefghij",
)
