"""What of our environment an agent sees."""

from __future__ import annotations

from autoresearch.lab.agent_work.turn_dir import surroundings, withheld

GONE = {
    **{"WANDB_API_KEY": "0123", "HF_TOKEN": "hf", "DB_PASSWORD": "x", "AWS_SECRET_ACCESS_KEY": "x"},
    **{"INNOCENT": "ghp_0123456789abcdefghij0123", "DATABASE": "postgres://me:secret@db/x"},  # by their shape
    **{"TMUX": "/tmp/tmux-0/default,1,0", "SSH_AUTH_SOCK": "/tmp/ssh", "DOCKER_HOST": "unix:///x", "KUBECONFIG": "/k"},
    **{"GIT_DIR": "/repo/.git", "GIT_INDEX_FILE": "/repo/.git/index", "GIT_SSH_COMMAND": "ssh -i key"},
    **{"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "http.extraheader", "AUTORESEARCH_GPU_LEASES": "/x"},
    **{"CLAUDECODE": "1", "CODEX_THREAD_ID": "1", "PYTHONPATH": "/repo", "RAY_ADDRESS": "ray://x"},
    "DBUS_SESSION_BUS_ADDRESS": "unix:path=/run/user/0/bus",
}
STAYS = {
    **{"PATH": "/bin", "HOME": "/root", "LANG": "C.UTF-8", "CODEX_HOME": "/h/.codex", "VIRTUAL_ENV": "/v"},
    **{"GIT_AUTHOR_NAME": "Me", "GIT_CONFIG_GLOBAL": "/h/gitconfig", "no_proxy": "localhost"},
    **{"MAX_TOKENS": "512", "TOKENIZERS_PARALLELISM": "false"},
    "HTTPS_PROXY": "http://me:secret@proxy:3128",  # without it there is no way to the model
}


def test_what_goes_and_what_stays() -> None:
    found = surroundings(GONE | STAYS)
    assert not found.keys() & GONE.keys() and found.items() >= STAYS.items()
    kept = surroundings(GONE | STAYS, keep=list(GONE))
    assert kept.items() >= (GONE | STAYS).items(), "unless the user says so"


def test_what_the_agent_needs_stays() -> None:
    mine = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_AUTH_TOKEN": "t", "CLAUDE_CODE_OAUTH_TOKEN": "c"}
    environ = {**mine, "OPENAI_API_KEY": "o", "CLAUDE_CODE_SESSION_ID": "the one that started us"}
    found = surroundings(environ, needs=("ANTHROPIC_*", "CLAUDE_CODE_*"))
    assert found.keys() & environ.keys() == mine.keys()


def test_what_is_set() -> None:
    found = surroundings({"TERM": "xterm-256color", "FORCE_COLOR": "1", "CUDA_VISIBLE_DEVICES": "3"})
    assert (found["GIT_OPTIONAL_LOCKS"], found["GIT_TERMINAL_PROMPT"], found["NO_COLOR"]) == ("0", "0", "1")
    assert (found["TERM"], found["CUDA_VISIBLE_DEVICES"]) == ("dumb", "")
    assert "FORCE_COLOR" not in found and "CI" not in found
    assert surroundings({"CUDA_VISIBLE_DEVICES": "3"}, keep=("CUDA_*",))["CUDA_VISIBLE_DEVICES"] == "3"


def test_what_was_withheld_may_name_a_file() -> None:
    environ = {"APP_CREDENTIALS": "/k.json", "OWN_KEY": "/mine", "PATH": "/bin", "TMUX": "/t"}
    assert withheld(environ, surroundings(environ, needs=["OWN_KEY"])) == {"APP_CREDENTIALS": "/k.json"}
