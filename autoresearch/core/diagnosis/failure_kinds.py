"""Failure kinds: the classes of causes, their ranks, and the patterns of the log lines that prove each.

The patterns match messages as torch, vLLM, SGLang, Ray, NCCL, Slurm, hydra and Python print them.
"""

from __future__ import annotations

import re
from enum import IntEnum, StrEnum


class Rank(IntEnum):
    """How well a line explains the end of a run; the lowest rank seen wins."""

    CERTAIN = 0  # a message that only this failure prints: out of memory, disk full, time limit
    STORM = 1  # the same traceback repeated with no step in between: the repetition matters more than its text
    EXCEPTION = 2  # a line, usually the last of a traceback, that names a cause: a missing module, a bad key
    NAN = 3  # not fatal by itself; the cause if none of the ranks above was seen
    SYMPTOM = 4  # something else died first: NCCL timeout, dead engine, dead actor, failed job
    ANY = 5  # an exception or fatal signal without its own class
    JOB = 6  # only a report that some job failed


class FailureKind(StrEnum):
    """A class of causes; its value is written into the ledger."""

    CUDA_OOM = "cuda_oom"
    KV_CACHE = "kv_cache"
    HOST_OOM = "host_oom"
    DISK_FULL = "disk_full"
    GPU_SHORTAGE = "gpu_shortage"
    GPU_BUSY = "gpu_busy"
    CUDA_ERROR = "cuda_error"
    PORT_TAKEN = "port_taken"
    SLURM_TIME_LIMIT = "slurm_time_limit"
    PREEMPTED = "preempted"
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
    RETRY_STORM = "retry_storm"
    KILLED_BY_AUTOKILL = "killed_by_autokill"
    STALL = "stall"
    EVALUATION_FAILED = "evaluation_failed"
    METRIC_UNREAD = "metric_unread"
    NO_STEP = "no_step"
    PYTHON_ERROR = "python_error"

    @classmethod
    def _missing_(cls, value: object) -> FailureKind | None:
        return cls.PREEMPTED if value == "slurm_preempted" else None  # the name used in records of 2026


_ERROR = r"^(?:[A-Za-z_]\w*\.)*"  # start of a traceback's last line: the exception's dotted name

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
        r"CUDA out of memory\. Tried to allocate|CUDA (?:driver )?error: out of memory|cudaErrorMemoryAllocation"
        r"|torch\.(?:cuda\.)?OutOfMemoryError: |(?:HIP|NPU) out of memory|CUBLAS_STATUS_ALLOC_FAILED"
        r"|CUDA out of memory occurred when warming up|Cuda failure 2 'out of memory'",
    ),
    (
        Rank.CERTAIN,
        FailureKind.KV_CACHE,
        r"No available memory for the cache blocks|less than desired GPU memory utilization"
        r"|larger than the maximum number of tokens that can be stored in KV cache"
        r"|larger than the available KV cache memory|^RuntimeError: Not enough memory\. Please try to increase",
    ),
    (
        Rank.CERTAIN,
        FailureKind.HOST_OOM,
        r"ray\.exceptions\.OutOfMemoryError|killed due to the node running low on memory"
        r"|[1-9]\d* Workers \(tasks / actors\) killed due to memory pressure \(OOM\)"
        r"|[Dd]etected \d+ oom[_-]kill event|oom-kill event\(s\) in"
        r"|Out of memory: Killed process|slurmstepd: error: .*OOM Killed|^MemoryError\b|Cannot allocate memory"
        r"|DefaultCPUAllocator: (?:can't allocate|not enough) memory|Unable to allocate [\d.]+ [KMGTP]iB for an array"
        r"|^std::bad_alloc|instance of 'std::bad_alloc'|what\(\): +std::bad_alloc",
    ),
    (
        Rank.CERTAIN,
        FailureKind.DISK_FULL,
        r"No space left on device|Disk quota exceeded|PytorchStreamWriter failed writing"
        r"|^OSError: \d+ requested and \d+ written"  # numpy; then torch, twice
        r"|inline_container\.cc:\d+\] \. unexpected pos|^RuntimeError: basic_ios::clear: iostream error",
    ),
    (
        Rank.CERTAIN,
        FailureKind.GPU_SHORTAGE,
        r"Total available GPUs [\d.]+ is less than total desired GPUs|No CUDA GPUs are available"
        r"|Found no NVIDIA driver on|nvidia-smi not found\. NVIDIA|CUDA error: invalid device ordinal"
        r"|Not enough GPUs available|^AssertionError: Torch not compiled with CUDA enabled"
        r"|World size \(\d+\) is larger than the number of available GPUs",
    ),
    (Rank.CERTAIN, FailureKind.GPU_BUSY, r"GPU memory check failed: all GPUs must have"),
    (Rank.STORM, FailureKind.RETRY_STORM, r"^\[swarm\] error retry_storm: "),
    (Rank.EXCEPTION, FailureKind.PORT_TAKEN, r"[Aa]ddress already in use|EADDRINUSE|^\[swarm\] error port_taken: "),
    (Rank.CERTAIN, FailureKind.SLURM_TIME_LIMIT, r"(?:slurmstepd|srun): error: .*DUE TO TIME LIMIT"),
    (
        Rank.CERTAIN,
        FailureKind.PREEMPTED,
        r"(?:slurmstepd|srun): error: .*DUE TO (?:PREEMPTION|NODE FAILURE)"
        r"|node (?:was|is being|has been) preempted|[Ss]pot instance interruption notice",
    ),
    (
        Rank.EXCEPTION,
        FailureKind.AUTH,
        r"(?:SWANLAB|WANDB|HF|OPENAI)\w*_(?:KEY|TOKEN) is not set|\b40[13] Client Error|Client error '40[13] |"
        + _ERROR
        + r"GatedRepoError"
        r"|Permission denied \(publickey|" + _ERROR + r"AuthenticationError\b|[Ii]nvalid (?:API|api)[ _]key"
        r"|No API key configured|is a gated repo|access a gated repo|api_key not configured|"
        + _ERROR
        + r"LocalTokenNotFoundError",
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
        r"|uncorrectable ECC error|GPU has fallen off the bus",
    ),
    (
        Rank.EXCEPTION,
        FailureKind.CONFIG_ERROR,
        _ERROR + r"(?:\w*Config\w*(?:Error|Exception)|ValidationError|MissingMandatoryValue|InterpolationKeyError"
        r"|OverrideParseException|HFValidationError|HfArgumentParser\w*)\b|^yaml\.(?:scanner|parser)\.\w+Error"
        r"|Could not override '|^Key '[^']{1,200}' is not in struct"
        r"|^ValueError: Some (?:specified|keys are not used)"
        r"|^mismatched input '|^no viable alternative at input '|^token recognition error at: '"
        r"|^Cannot find primary config|^In '[^']{1,200}': Could not find '"
        r"|^TypeError: .{0,200}__init__\(\) got an unexpected keyword argument"
        r"|^\S{0,40}tinygrpo: .{0,200}(?:unknown key|must be|cannot read the recipe)"
        r"|^\S{1,80}: error: (?:unrecognized arguments|the following arguments are required|argument )",
    ),
    (
        Rank.EXCEPTION,
        FailureKind.IMPORT_ERROR,
        _ERROR + r"(?:ModuleNotFoundError|ImportError): |: No module named \S|"
        r"^RuntimeError: \w{1,40}Callback requires .{1,80} to be installed|Unexpected error: No module named '",
    ),
    (
        Rank.EXCEPTION,
        FailureKind.MISSING_FILE,
        _ERROR + r"(?:FileNotFoundError|NotADirectoryError): |is not a valid model identifier"
        r"|: No such file or directory$|can't open file |" + _ERROR + r"RepositoryNotFoundError",
    ),
    (Rank.EXCEPTION, FailureKind.COMMAND_NOT_FOUND, r": command not found$|^\S{1,40}: \d{1,6}: \S{1,80}: not found$"),
    (Rank.EXCEPTION, FailureKind.PERMISSION, _ERROR + r"PermissionError: |: Permission denied$"),
    (
        Rank.EXCEPTION,
        FailureKind.NETWORK,
        _ERROR + r"(?:ConnectionError|ConnectionRefusedError|ConnectionResetError|ConnectTimeout|ConnectError"
        r"|ReadTimeout|MaxRetryError|LocalEntryNotFoundError|OfflineModeIsEnabled|gaierror|SSLError|ProxyError|URLError"
        r"|NewConnectionError|RemoteDisconnected|ClientConnectorError|APIConnectionError)\b"
        r"|Temporary failure in name resolution|The vLLM server can't be reached|^fatal: unable to access '"
        r"|We couldn't connect to 'https://huggingface\.co'"
        r"|ERROR: Could not find a version .{0,200}\(from versions: none\)",
    ),
    (
        Rank.NAN,
        FailureKind.NAN,
        r"grad_norm is not finite|\b[Ll]oss is (?:nan|NaN|inf)\b|found NaN in (?:local grad|loss)"
        r"|" + _ERROR + r"FloatingPointError: |probability tensor contains either `inf`, `nan`"
        r"|returned nan values in its \d+th output|[Ll]oss is not finite|non-finite (?:loss|grad)",
    ),
    (
        Rank.SYMPTOM,
        FailureKind.NCCL_TIMEOUT,
        r"Watchdog caught collective operation timeout|due to a collective timeout"
        r"|we are taking the entire process down"
        r"|ProcessGroupNCCL's watchdog got stuck|gloo/transport/\S{1,80}\] Timed out waiting \d+ms"
        r"|" + _ERROR + r"DistStoreError: Timed out|^RuntimeError: .{0,80}Timed out waiting \d+ms for (?:recv|send)"
        r"|DistStoreError: wait timeout after|(?:client|TCPStore) .{0,80}(?:has )?timed out",
    ),
    # SIGKILL of a DataLoader or torchrun worker: usually by the kernel, for lack of memory or of /dev/shm
    (
        Rank.SYMPTOM,
        FailureKind.HOST_OOM,
        r"DataLoader worker \(pid\S{0,4} .{1,80}\) is killed by signal: (?:Killed|Bus error)"
        r"|elastic/multiprocessing/api\.py:\d+\] failed \(exitcode: -9\)",
    ),
    (
        Rank.SYMPTOM,
        FailureKind.NCCL_ERROR,
        r"ncclUnhandledCudaError|ncclSystemError|ncclInternalError|ncclRemoteError|NCCL communicator was aborted"
        r"|NCCL error in:|NCCL error: "
        r"|^RuntimeError: \[[^\]]{1,200}gloo/[^\]]{1,200}\] Connection closed by peer",
    ),
    (
        Rank.SYMPTOM,
        FailureKind.ENGINE_DEAD,
        r"EngineDeadError: |EngineCore encountered an issue|Engine core initialization failed"
        r"|Health check (?:failed|timed out) for rollout engine"
        r"|Timeout while flushing cache\.$|Received sigquit from a child process"
        r"|Interchange server subprocess failed to start|" + _ERROR + r"SwarmServerOfflineError\b"
        r"|Current engine status \(already waited \d+s\): ENGINE\.OFFLINE|Failed to start training engine",
    ),
    (Rank.SYMPTOM, FailureKind.ROLLOUT_STALL, _ERROR + r"RolloutStall\w*\b|WARNING: rollout stall --"),
    (
        Rank.SYMPTOM,
        FailureKind.RAY_PENDING,
        r"cannot be scheduled right now|No available node types can fulfill resource request"
        r"|placement group \S{0,80} ?(?:is|are) (?:infeasible|pending)|Waiting for placement group|PENDING_RESOURCES"
        r"|\(autoscaler\b.{0,80}No available node types",
    ),
    (
        Rank.SYMPTOM,
        FailureKind.RAY_ACTOR_DIED,
        r"(?:ActorDiedError|RayActorError|ActorUnavailableError|WorkerCrashedError|NodeDiedError)\b"
        r"(?!: The actor died because of an error raised in its creation task)"
        r"|^The actor (?:died unexpectedly|is dead because)"
        r"|A worker died or was killed while executing a task",
    ),
    # hydra prints this before the traceback of any exception; it proves nothing if another line matches
    (Rank.ANY, FailureKind.CONFIG_ERROR, r"^Error executing job with overrides:"),
    (
        Rank.ANY,
        FailureKind.SEGFAULT,
        r"\*\*\* SIGSEGV received|Segmentation fault\b|^Fatal Python error: |^terminate called "
        r"|elastic/multiprocessing/api\.py:\d+\] failed \(exitcode: -(?:6|7|11)\)",
    ),
    # the heading of an engine's traceback; the traceback itself is more specific
    (
        Rank.JOB,
        FailureKind.ENGINE_DEAD,
        r"EngineCore (?:encountered a fatal error|failed to start)|Scheduler hit an exception"
        r"|^\[swarm\] error (?:boot_failed|server_died|server_unhealthy|engine_(?:offline|crashed|stuck)): ",  # our own
    ),
    (
        Rank.JOB,
        FailureKind.RAY_JOB_FAILED,
        r"Job '[^']{1,200}' failed|Job entrypoint command failed with exit code",
    ),
    (Rank.JOB, FailureKind.PYTHON_ERROR, r"^KeyboardInterrupt\b"),  # effect of any SIGINT, not a cause
    (
        Rank.ANY,
        FailureKind.PYTHON_ERROR,
        _ERROR + r"\w*(?:Error|Exception|Interrupt|Exit|Stop\w*)(?:\([\w.]{1,80}\))?(?:: |:?$)"
        r"|Error running subprocess: Command .* returned non-zero exit status",
    ),
)

PATTERNS = tuple((rank, kind, re.compile(pattern)) for rank, kind, pattern in _TABLE)

NEEDLES = (
    *("rror", "xception", "Traceback (most recent call last)", "emory", "illed", "died", "Died", "space left"),
    *("imeout", "imed out", "is not ", "already in use", "ADDRINUSE", "DUE TO ", "preempted", "nterrupt", "denied"),
    *("Client ", "is a gated", "_KEY", "KEY is", "TOKEN is", "PI key", "pi key", "pi_key", "PI_key", "o such file"),
    *("onnect", "Failed to", "ailed with", "' failed", "BLAS_STATUS", "DNN_STATUS", "failure", "GPU"),
    *("ound", "to open file", "t open file", "o module", "reached", "finite", "an values", "s nan", "s NaN", "s inf"),
    *("NaN in", "`nan`", "gloo/", "nccl", "watchdog", "process down", "NCCL", "EngineCore", "Engine core"),
    *("hit an exc", "Health check", "sigquit", "OFFLINE", "ollout", "cheduled", "node types", "lacement group"),
    *("PENDING_", "actor ", "A worker", "egmentation", "SIGSEGV", "bad_alloc", "uota exceeded", "StreamWriter"),
    *("No API", "No available", "Could not", "onfiguration conflict", "Key '", "mismatched", "primary config"),
    *("tinygrpo: ", "Exit", "Stop", "[prompt]", "[response]", "Retry", "SSL", "Cannot", "struct", "Offline"),
    *(
        "exitcode: -",
        "no viable",
        "token recog",
        "terminate",
        "gated",
        "gaierror",
        "in name resolution",
        "unable to access",
        "taking the entire",
        "Node",
        "resource request",
    ),
)
"""Every line that `PATTERNS` can match contains one of these texts, so a search skips all other lines."""

CERTAIN_KINDS = frozenset(kind for rank, kind, _ in _TABLE if rank is Rank.CERTAIN)
"""Classes with messages that only they print."""
