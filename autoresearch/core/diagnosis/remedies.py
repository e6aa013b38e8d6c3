"""Remedies: what to try for each class of failure, in general and with the settings of a specific trainer."""

from __future__ import annotations

from autoresearch.core.diagnosis.failure_kinds import FailureKind

HINTS = {
    FailureKind.CUDA_OOM: "lower the micro batch, the sequence length or gpu_memory_utilization",
    FailureKind.KV_CACHE: "free the GPU of leftovers, raise gpu_memory_utilization or lower max_model_len",
    FailureKind.HOST_OOM: "lower the number of workers or of prompts held in memory, or ask for more RAM",
    FailureKind.DISK_FULL: "free space on that device, or save fewer checkpoints",
    FailureKind.GPU_SHORTAGE: "ask for as many GPUs as the recipe wants, or lower n_gpus_per_node",
    FailureKind.GPU_BUSY: "see with nvidia-smi who holds the GPUs and end what is left over",
    FailureKind.CUDA_ERROR: "run again with CUDA_LAUNCH_BLOCKING=1 to see the place; if it moves, suspect the GPU",
    FailureKind.PORT_TAKEN: "end the process that holds the port, or choose another port in the recipe",
    FailureKind.SLURM_TIME_LIMIT: "ask Slurm for more time, or make the run save and resume within its limit",
    FailureKind.PREEMPTED: "submit it again; nothing is wrong with the hypothesis",
    FailureKind.AUTH: "set the key or token that the line names, or take that logger out of the recipe",
    FailureKind.RAY_UNREACHABLE: "start the Ray cluster, or unset RAY_ADDRESS: the trainer then starts its own",
    FailureKind.CONFIG_ERROR: "mend the key that the line names in the recipe or the command",
    FailureKind.IMPORT_ERROR: "install the module beside exp_venv_exe, or name the right interpreter",
    FailureKind.MISSING_FILE: "mend the path that the line names; relative paths start at the codebase",
    FailureKind.COMMAND_NOT_FOUND: "install the program, or write its full path into the command",
    FailureKind.PERMISSION: "give the user access to the path that the line names, or use another one",
    FailureKind.NETWORK: "check network and proxy, or download model and data first and work offline",
    FailureKind.NAN: "lower the learning rate, clip gradients, or look for empty groups and a bad precision",
    FailureKind.NCCL_TIMEOUT: "look for the rank that fell out first; if none did, raise the NCCL timeout",
    FailureKind.NCCL_ERROR: "run again with NCCL_DEBUG=INFO and check the interconnect and free shared memory",
    FailureKind.ENGINE_DEAD: "find the engine's own traceback above this line; it is most often memory",
    FailureKind.ROLLOUT_STALL: "look at the rollout workers: one environment or engine no longer answers",
    FailureKind.RAY_PENDING: "something else holds the GPUs: end the leftover job or ask for fewer",
    FailureKind.RAY_ACTOR_DIED: "read the dead worker's own last lines; if it has none, suspect memory",
    FailureKind.RAY_JOB_FAILED: "read the job's own log: `ray job logs`",
    FailureKind.SEGFAULT: "run again with PYTHONFAULTHANDLER=1 to see the frame; check library versions",
    FailureKind.RETRY_STORM: (
        "mend what the repeated traceback names; retrying will not: turn auto_retry off while you do"
    ),
    FailureKind.KILLED_BY_AUTOKILL: "take --autokill, pkill and killall out of the command and its scripts",
    FailureKind.STALL: "see what its processes wait for (py-spy dump), and end such runs with --stall-timeout",
    FailureKind.EVALUATION_FAILED: "read evaluation.log, and run the `evaluate:` command by hand in its place",
    FailureKind.METRIC_UNREAD: "name the metric as the log prints it, or say with `- step_line:` how its line looks",
    FailureKind.NO_STEP: "see in the log whether it trained at all; another version of a trainer may print other lines",
    FailureKind.PYTHON_ERROR: "read the traceback; its last frame in your own code is the place to look",
}
"""One sentence for each class."""

_MORE: dict[FailureKind, tuple[str, ...]] = {
    FailureKind.CUDA_OOM: (
        "set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True where much is reserved but unallocated "
        "(not together with SGLang's memory saver)",
        "look with nvidia-smi for leftovers of an earlier run before blaming the recipe",
    ),
    FailureKind.HOST_OOM: (
        "look at `dmesg -T | grep -i oom`, or at the cgroup's memory.events: who was killed, and at what size",
    ),
    FailureKind.NCCL_TIMEOUT: (
        "search the log for the first traceback before this line: a dead rank lets all others wait",
    ),
    FailureKind.PORT_TAKEN: ("`ss -ltnp` names the holder; a server of an earlier run is the usual one",),
    FailureKind.DISK_FULL: ("`df -h` and `df -i` of the path in the line; Ray's and wandb's files grow in /tmp",),
    FailureKind.RAY_PENDING: ("`ray status` shows what is asked for and what is there",),
    FailureKind.RAY_ACTOR_DIED: ("the OOM killer and `ray stop --force` stand in every such text and prove nothing",),
    FailureKind.STALL: (
        "where output goes on, it is no progress: health checks print for hours beside a dead trainer",
    ),
    FailureKind.AUTH: ("`huggingface-cli whoami` (or the logger's own login) shows whether the token is seen",),
    FailureKind.RETRY_STORM: ("run one episode by itself, without retries, and see it end well first",),
}

_TRAINERS: dict[tuple[FailureKind, str], tuple[str, ...]] = {
    (FailureKind.CUDA_OOM, "verl"): (
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu or ppo_max_token_len_per_gpu down; "
        "actor_rollout_ref.rollout.gpu_memory_utilization down; fsdp_config.param_offload=True",
    ),
    (FailureKind.KV_CACHE, "verl"): (
        "actor_rollout_ref.rollout.gpu_memory_utilization up, or rollout.max_model_len down",
    ),
    (FailureKind.CUDA_OOM, "nemo_rl"): (
        "policy.train_micro_batch_size or policy.logprob_batch_size down; policy.sequence_packing.enabled=true; "
        "policy.generation.vllm_cfg.gpu_memory_utilization down",
    ),
    (FailureKind.KV_CACHE, "nemo_rl"): ("policy.generation.vllm_cfg.gpu_memory_utilization up, or max_model_len down",),
    (FailureKind.CUDA_OOM, "slime"): (
        "--max-tokens-per-gpu down; --sglang-mem-fraction-static down; --recompute-granularity full",
    ),
    (FailureKind.KV_CACHE, "slime"): ("--sglang-mem-fraction-static up",),
    (FailureKind.ENGINE_DEAD, "slime"): (
        "--use-fault-tolerance restarts dead engines; look for the SGLangEngine's own traceback",
    ),
    (FailureKind.NCCL_TIMEOUT, "slime"): ("--distributed-timeout-minutes up, once no rank is dead",),
    (FailureKind.CUDA_OOM, "trl"): (
        "per_device_train_batch_size down and gradient_accumulation_steps up; gradient_checkpointing=true; "
        "vllm_gpu_memory_utilization down",
    ),
    (FailureKind.NETWORK, "trl"): (
        "the vLLM server must be up first: `trl vllm-serve`, and vllm_server_host/port must name it",
    ),
    (FailureKind.CUDA_OOM, "openrlhf"): (
        "the micro train and rollout batch sizes down; --adam_offload; --gradient_checkpointing",
    ),
    (FailureKind.GPU_SHORTAGE, "verl"): (
        "trainer.n_gpus_per_node and trainer.nnodes must not ask for more than `ray status` shows",
    ),
    (FailureKind.GPU_BUSY, "agentjet"): (
        "--skip-check-avail-gpu where the run shares the machine: the check looks at all GPUs",
    ),
    (FailureKind.AUTH, "agentjet"): ("export SWANLAB_API_KEY, or set the logger to tensorboard in the recipe",),
    (FailureKind.ENGINE_DEAD, "agentjet_swarm"): (
        "read the server's log: the client waits for ever for an engine that went from BOOTING to OFFLINE",
    ),
    (FailureKind.RETRY_STORM, "agentjet_swarm"): ("auto_retry=False in the client while its agent has a bug",),
}

_PROXYCHAINS = "proxychains is installed: begin the command with `proxychains -q` where the host needs a proxy"
_OFFLINE = "HF_HUB_OFFLINE=1 once model and data are in the cache; HF_ENDPOINT for a mirror; http_proxy and https_proxy"


def suggestions(failure_kind: FailureKind, trainer: str = "", *, proxychains: bool = False) -> tuple[str, ...]:
    """What to try, the most likely first. proxychains: whether that program is installed on this host."""
    network = (*((_PROXYCHAINS,) if proxychains else ()), _OFFLINE) if failure_kind is FailureKind.NETWORK else ()
    family = trainer.removesuffix("_swarm")
    own = _TRAINERS.get((failure_kind, trainer)) or _TRAINERS.get((failure_kind, family)) or ()
    if not own and family == "agentjet":  # AgentJet trains with verl
        own = _TRAINERS.get((failure_kind, "verl"), ())
    return (HINTS[failure_kind], *own, *network, *_MORE.get(failure_kind, ()))
