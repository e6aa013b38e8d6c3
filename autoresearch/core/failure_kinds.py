"""Failure kinds: the classes of causes, the words that prove each, and what to try.

Texts are those of torch, vLLM, SGLang, Ray, NCCL, Slurm, hydra and Python as they print them.
"""

from __future__ import annotations

import re
from enum import IntEnum, StrEnum


class Rank(IntEnum):
    """How much a line explains; the lowest rank that was seen wins."""

    CERTAIN = 0  # words that only this failure prints: out of memory, disk full, time limit
    EXCEPTION = 1  # a line, most often a traceback's last, that names a cause: a missing module, a bad key
    NAN = 2  # not fatal by itself; believed where nothing above explains the end
    SYMPTOM = 3  # something else died first: NCCL timeout, dead engine, dead actor, failed job
    ANY = 4  # an exception or a fatal signal without a class of its own


class FailureKind(StrEnum):
    """A class of causes; the word goes into the ledger."""

    CUDA_OOM = "cuda_oom"
    KV_CACHE = "kv_cache"
    HOST_OOM = "host_oom"
    DISK_FULL = "disk_full"
    GPU_SHORTAGE = "gpu_shortage"
    GPU_BUSY = "gpu_busy"
    CUDA_ERROR = "cuda_error"
    PORT_TAKEN = "port_taken"
    SLURM_TIME_LIMIT = "slurm_time_limit"
    SLURM_PREEMPTED = "slurm_preempted"
    AUTH = "auth"
    RAY_UNREACHABLE = "ray_unreachable"
    CONFIG_ERROR = "config_error"
    IMPORT_ERROR = "import_error"
    MISSING_FILE = "missing_file"
    COMMAND_NOT_FOUND = "command_not_found"
    PERMISSION = "permission"
    NETWORK = "network"
    NAN = "nan"
    NCCL_TIMEOUT = "nccl_timeout"
    NCCL_ERROR = "nccl_error"
    ENGINE_DEAD = "engine_dead"
    ROLLOUT_STALL = "rollout_stall"
    RAY_PENDING = "ray_pending"
    RAY_ACTOR_DIED = "ray_actor_died"
    RAY_JOB_FAILED = "ray_job_failed"
    SEGFAULT = "segfault"
    PYTHON_ERROR = "python_error"

    @property
    def hint(self) -> str:
        """One sentence: what to try."""
        return _HINTS[self]


_ERROR = r"^(?:[A-Za-z_]\w*\.)*"  # the last line of a traceback begins with the exception's dotted name

_TABLE: tuple[tuple[Rank, FailureKind, str], ...] = (
    # AgentJet's launcher and trainer (modelscope/AgentJet: ajet/utils/*.py, ajet/backbone/trainer_verl.py)
    (
        Rank.EXCEPTION,
        FailureKind.CONFIG_ERROR,
        r"configuration conflict between AgentJet and Verl|Please set ajet field in yaml file"
        r"|^AssertionError: real_train_batch_size \(|swarm_mode is not compatible with `val_before_train`",
    ),
    (Rank.EXCEPTION, FailureKind.MISSING_FILE, r"^AssertionError: Model path .{1,400} does not exist"),
    (Rank.EXCEPTION, FailureKind.IMPORT_ERROR, r"Python environment does not match current backbone"),
    (
        Rank.CERTAIN,
        FailureKind.CUDA_OOM,
        r"CUDA out of memory\. Tried to allocate|CUDA error: out of memory|cudaErrorMemoryAllocation"
        r"|torch\.(?:cuda\.)?OutOfMemoryError: |HIP out of memory",
    ),
    (
        Rank.CERTAIN,
        FailureKind.KV_CACHE,
        r"No available memory for the cache blocks|less than desired GPU memory utilization"
        r"|larger than the maximum number of tokens that can be stored in KV cache",
    ),
    (
        Rank.CERTAIN,
        FailureKind.HOST_OOM,
        r"ray\.exceptions\.OutOfMemoryError|killed due to the node running low on memory"
        r"|killed due to memory pressure \(OOM\)|[Dd]etected \d+ oom[_-]kill event|oom-kill event\(s\) in"
        r"|Out of memory: Killed process|slurmstepd: error: .*OOM Killed|^MemoryError\b|Cannot allocate memory",
    ),
    (Rank.CERTAIN, FailureKind.DISK_FULL, r"No space left on device|Disk quota exceeded"),
    (
        Rank.CERTAIN,
        FailureKind.GPU_SHORTAGE,
        r"Total available GPUs [\d.]+ is less than total desired GPUs|No CUDA GPUs are available"
        r"|Found no NVIDIA driver on|nvidia-smi not found\. NVIDIA|CUDA error: invalid device ordinal",
    ),
    (Rank.CERTAIN, FailureKind.GPU_BUSY, r"GPU memory check failed: all GPUs must have"),
    (Rank.EXCEPTION, FailureKind.PORT_TAKEN, r"Address already in use|EADDRINUSE"),
    (Rank.CERTAIN, FailureKind.SLURM_TIME_LIMIT, r"slurmstepd: error: .*DUE TO TIME LIMIT"),
    (Rank.CERTAIN, FailureKind.SLURM_PREEMPTED, r"slurmstepd: error: .*DUE TO (?:PREEMPTION|NODE FAILURE)"),
    (
        Rank.EXCEPTION,
        FailureKind.AUTH,
        r"(?:SWANLAB|WANDB|HF|OPENAI)\w*_(?:KEY|TOKEN) is not set|40[13] Client Error|GatedRepoError"
        r"|Permission denied \(publickey|[Ii]nvalid (?:API|api)[ _]key|No API key configured",
    ),
    (
        Rank.EXCEPTION,
        FailureKind.RAY_UNREACHABLE,
        r"Failed to connect to Ray at address|Could not find any running Ray instance"
        r"|No available agent to submit job|Failed to connect to GCS",
    ),
    (
        Rank.CERTAIN,
        FailureKind.CUDA_ERROR,
        r"CUDA error: (?:an illegal memory access|device-side assert|unspecified launch failure"
        r"|misaligned address|no kernel image)|CUBLAS_STATUS_(?!SUCCESS)|CUDNN_STATUS_(?!SUCCESS)"
        r"|uncorrectable ECC error",
    ),
    (
        Rank.EXCEPTION,
        FailureKind.CONFIG_ERROR,
        _ERROR + r"(?:Config\w*(?:Error|Exception)|ValidationError|MissingMandatoryValue|InterpolationKeyError"
        r"|OverrideParseException)\b|^yaml\.(?:scanner|parser)\.\w+Error|Could not override '"
        r"|^Key '[^']{1,200}' is not in struct"
        r"|^\S{0,40}tinygrpo: .{0,200}(?:unknown key|must be|cannot read the recipe)"
        r"|^\S{1,80}: error: (?:unrecognized arguments|the following arguments are required|argument )",
    ),
    (
        Rank.EXCEPTION,
        FailureKind.IMPORT_ERROR,
        _ERROR + r"(?:ModuleNotFoundError|ImportError): |: No module named \S",
    ),
    (
        Rank.EXCEPTION,
        FailureKind.MISSING_FILE,
        _ERROR + r"(?:FileNotFoundError|NotADirectoryError): |is not a valid model identifier"
        r"|: No such file or directory$|can't open file ",
    ),
    (Rank.EXCEPTION, FailureKind.COMMAND_NOT_FOUND, r": command not found$|: not found$"),
    (Rank.EXCEPTION, FailureKind.PERMISSION, _ERROR + r"PermissionError: |: Permission denied$"),
    (
        Rank.EXCEPTION,
        FailureKind.NETWORK,
        _ERROR + r"(?:ConnectionError|ConnectionRefusedError|ConnectTimeout|ConnectError|ReadTimeout|MaxRetryError"
        r"|LocalEntryNotFoundError|gaierror|SSLError|ProxyError|URLError)\b"
        r"|Temporary failure in name resolution|The vLLM server can't be reached",
    ),
    (
        Rank.NAN,
        FailureKind.NAN,
        r"grad_norm is not finite|\b[Ll]oss is (?:nan|NaN|inf)\b|found NaN in (?:local grad|loss)"
        r"|" + _ERROR + r"FloatingPointError: |probability tensor contains either `inf`, `nan`",
    ),
    (
        Rank.SYMPTOM,
        FailureKind.NCCL_TIMEOUT,
        r"Watchdog caught collective operation timeout|we are taking the entire process down"
        r"|ProcessGroupNCCL's watchdog got stuck",
    ),
    (
        Rank.SYMPTOM,
        FailureKind.NCCL_ERROR,
        r"ncclUnhandledCudaError|ncclSystemError|ncclInternalError|NCCL error in:",
    ),
    (
        Rank.SYMPTOM,
        FailureKind.ENGINE_DEAD,
        r"EngineDeadError: |EngineCore encountered a(?:n issue| fatal error)|Engine core initialization failed"
        r"|Scheduler hit an exception|Health check failed for rollout engine|Timeout while flushing cache\.$",
    ),
    (Rank.SYMPTOM, FailureKind.ROLLOUT_STALL, _ERROR + r"RolloutStall\w*\b|WARNING: rollout stall --"),
    (
        Rank.SYMPTOM,
        FailureKind.RAY_PENDING,
        r"resource request cannot be scheduled right now"
        r"|No available node types can fulfill resource request",
    ),
    (
        Rank.SYMPTOM,
        FailureKind.RAY_ACTOR_DIED,
        r"(?:ActorDiedError|RayActorError|ActorUnavailableError|WorkerCrashedError|NodeDiedError)\b"
        r"|^The actor (?:died unexpectedly|is dead because)"
        r"|A worker died or was killed while executing a task",
    ),
    (
        Rank.SYMPTOM,
        FailureKind.RAY_JOB_FAILED,
        r"Job '[^']{1,200}' failed|Job entrypoint command failed with exit code",
    ),
    # hydra says so before the traceback of any exception; it proves nothing where another line speaks
    (Rank.ANY, FailureKind.CONFIG_ERROR, r"^Error executing job with overrides:"),
    (Rank.ANY, FailureKind.SEGFAULT, r"\*\*\* SIGSEGV received|^Segmentation fault|^Fatal Python error: "),
    (
        Rank.ANY,
        FailureKind.PYTHON_ERROR,
        _ERROR + r"\w*(?:Error|Exception|Interrupt|Exit|Stop\w*)(?:\([\w.]{1,80}\))?(?:: |$)"
        r"|Error running subprocess: Command .* returned non-zero exit status",
    ),
)

PATTERNS = tuple((rank, kind, re.compile(pattern)) for rank, kind, pattern in _TABLE)

_HINTS = {
    FailureKind.CUDA_OOM: "lower the micro batch, the sequence length or gpu_memory_utilization",
    FailureKind.KV_CACHE: "free the GPU of leftovers, raise gpu_memory_utilization or lower max_model_len",
    FailureKind.HOST_OOM: "lower the number of workers or of prompts held in memory, or ask for more RAM",
    FailureKind.DISK_FULL: "free space on that device, or save fewer checkpoints",
    FailureKind.GPU_SHORTAGE: "ask for as many GPUs as the recipe wants, or lower n_gpus_per_node",
    FailureKind.GPU_BUSY: "see with nvidia-smi who holds the GPUs and end what is left over",
    FailureKind.CUDA_ERROR: "run again with CUDA_LAUNCH_BLOCKING=1 to see the place; if it moves, suspect the GPU",
    FailureKind.PORT_TAKEN: "end the process that holds the port, or choose another port in the recipe",
    FailureKind.SLURM_TIME_LIMIT: "ask Slurm for more time, or make the run save and resume within its limit",
    FailureKind.SLURM_PREEMPTED: "submit it again; nothing is wrong with the hypothesis",
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
    FailureKind.PYTHON_ERROR: "read the traceback; its last frame in your own code is the place to look",
}
