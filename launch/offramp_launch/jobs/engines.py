"""
`job sbatch` and `job k8s`: files for engines that start shards, from the templates slurm.sh and kubernetes.yaml. A task
of Slurm's array, or an index of the Kubernetes Job, is one shard, and is tried again if another try may succeed.
"""

import ipaddress
import json
import os
import pathlib
import re
import shlex
import string

from offramp_launch.arguments import count, take_values
from offramp_launch.exit_code import NotFoundError, UsageError
from offramp_launch.jobs.merge import as_ranges
from offramp_launch.jobs.shard_record import FIRST_SIGNAL, TRY_AGAIN, final_codes
from offramp_launch.watching import address

SBATCH_FLAGS = ("--time", "--partition", "--gpus-per-shard", "--cpus", "--at-once", "--restarts")
K8S_FLAGS = tuple("--image --claim --mount --name --gpus-per-shard --cpus --memory --shm --at-once --secret".split())
NAME = (r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", "is not a Kubernetes name", "Give lowercase letters, digits and '-'")
QUANTITY = (r"(?a)\d+(\.\d+)?([kMGTP]|[KMGTP]i)?", "is not a Kubernetes quantity", "Give one such as 16Gi")
# flag: (what its whole value matches, what an error says of another, the remedy).
FORMS = {
    "--time": (
        r"(?a)\d+|\d+:\d\d|\d+:\d\d:\d\d|\d+-\d+(:\d\d){0,2}",
        "is not a Slurm time",
        "Give minutes, HOURS:MINUTES:SECONDS or DAYS-HOURS: 90, 4:00:00, 1-12",
    ),
    "--partition": (
        r"[\w.,+-]+",
        "is not a list of names",
        "Give --partition in sbatch's form: names separated by commas",
    ),
    # Kubernetes appends the index to this name to name pods.
    "--name": (
        r"(?=.{1,52}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?",
        "cannot name pods",
        "Give at most 52 lowercase letters, digits and '-'",
    ),
    "--claim": NAME,
    "--secret": NAME,
    "--memory": QUANTITY,
    "--shm": QUANTITY,
}
# From an engine's signal that a shard's time is up to its kill: the shard drains.
DRAIN_SECONDS = 120
PROBE_SECONDS = 10


class Template(string.Template):
    delimiter = "@"  # '$' is the shell's


def filled(template, **values):
    return Template((pathlib.Path(__file__).parent / template).read_text()).substitute(
        values, again=TRY_AGAIN, drain=DRAIN_SECONDS
    )


def script(job, command, given, flags):
    """`command`: the program for a shard. `given`: of SBATCH_FLAGS. `flags`: of each shard. Errors: LaunchError."""
    missing = missing_of(job)
    requests = {
        "--gres": (gpus := gpus_of(job, given, flags)) and f"gpu:{gpus}",
        "--cpus-per-task": at_least_one(given, "--cpus", 0),
        "--time": valid("--time", given),
        "--partition": valid("--partition", given),
    }
    at_once = at_least_one(given, "--at-once", 0)
    log = re.sub(r'(["\\])', r"\\\1", str(job.folder).replace("%", "%%"))  # quoted for sbatch's parser
    return filled(
        "slurm.sh",
        shards=len(missing),
        id=job.id,
        array=as_ranges(missing) + (f"%{at_once}" if at_once else ""),
        log=f'"{log}/slurm-%a.log"',
        requests="".join(f"#SBATCH {flag}={value}\n" for flag, value in requests.items() if value),
        first_signal=FIRST_SIGNAL,
        command=shlex.join([command, "shard", "--job", require_one_line("the job's folder", str(job.folder)), *flags]),
        restarts=count(given.get("--restarts", "10"), "--restarts"),
    )


def manifest(job, given, flags, is_mount=os.path.ismount):
    """`given`: values of K8S_FLAGS. `flags`: of each shard's run. Errors: LaunchError."""
    missing_of(job)
    for name in ("--image", "--claim"):
        if not given.get(name):
            raise UsageError(
                f"{name} is not given",
                "Give --image IMAGE with Offramp in it, and --claim NAME of a volume that all pods mount",
            )
    port, probe = watched_by(flags)
    secret, image = valid("--secret", given), require_one_line("--image", given["--image"])
    folder = require_one_line("the job's folder", str(job.folder))
    arguments = ["shard", "--job", folder, *(require_one_line("a flag", flag) for flag in flags)]
    values = {
        "name": valid("--name", {"--name": f"offramp-{job.id}", **given}),
        "completions": job.shards,
        "parallelism": at_least_one(given, "--at-once", job.shards),
        "final": final_codes(),
        "image": image,
        "args": arguments,
        "secret": secret and [{"secretRef": {"name": secret}}],
        "resources": resources_of(job, given, flags),
        "ports": port and [{"name": "metrics", "containerPort": port}],
        "probe": probe,
        "mount": str(mount_of(job, given, is_mount)),
        "claim": valid("--claim", given),
        "shm": valid("--shm", {"--shm": "16Gi", **given}),
    }
    # JSON is valid YAML.
    text = filled(
        "kubernetes.yaml",
        id=job.id,
        **{name: json.dumps(value, ensure_ascii=False) if value else "" for name, value in values.items()},
    )
    return re.sub(r"(?m)^ *\w+: \n", "", text)  # fields without a value


def missing_of(job):
    """The shards to start. Errors: LaunchError (NO_INPUT) if none is left."""
    if not (missing := job.missing(job.records())):
        raise NotFoundError(
            f"all {job.shards} shards of the job are done",
            f"Merge their results: ./launch/offramp job merge --job {job.folder}",
        )
    return missing


def valid(flag, given):
    """The flag's value; None if it is not given. Errors: LaunchError (USAGE) for one that the engine would refuse."""
    text = given.get(flag)
    form, is_wrong, remedy = FORMS[flag]
    if text is not None and not re.fullmatch(form, text):
        raise UsageError(f"{flag} is '{text}', which {is_wrong}", remedy)
    return text


def gpus_of(job, given, flags):
    """The number of GPUs that a shard requests. `flags`: its own, added to the job's."""
    if "--gpus-per-shard" not in given:
        return 0 if take_values([*job.facts["flags"], *flags], ("--device",))[0].get("--device") == "cpu" else 1
    if (wanted := count(given["--gpus-per-shard"], "--gpus-per-shard")) > 1:
        raise UsageError(
            f"--gpus-per-shard is {wanted}, and a shard works on one GPU",
            "Give 1, or 0 for a job on CPUs. More shards can run at the same time (--at-once)",
        )
    return wanted


def at_least_one(given, name, otherwise):
    if name in given and count(given[name], name) < 1:
        raise UsageError(f"{name} is 0", "Give a number from 1 on")
    return int(given.get(name, otherwise))


def require_one_line(what, text):
    """Errors: LaunchError (USAGE) for text that would break into lines in an engine's file."""
    if not text.isprintable():
        raise UsageError(f"{what} {text!r} has a character that is not printable", "Remove that character")
    return text


def resources_of(job, given, flags):
    gpus, memory, cpus = gpus_of(job, given, flags), valid("--memory", given), at_least_one(given, "--cpus", 0)
    found = {"limits": {"nvidia.com/gpu": gpus, "memory": memory}, "requests": {"cpu": cpus, "memory": memory}}
    return {
        kind: some for kind, each in found.items() if (some := {name: value for name, value in each.items() if value})
    }


def watched_by(flags):
    """
    (port, readiness probe) of --http. No liveness probe: a shard does not answer while it checks the output before its
    run and hashes parts after it.
    """
    text = take_values(flags, (address.FLAG,))[0].get(address.FLAG)
    if text is None:
        return None, None
    host, port = address.parsed(text)
    if port == 0 or ipaddress.ip_address(address.numeric(host)).is_loopback:
        raise UsageError(f"{address.FLAG} is {text}, which a cluster cannot reach", f"Give {address.FLAG} 0.0.0.0:9464")
    return port, {
        "httpGet": {"path": "/readyz", "port": port},
        "periodSeconds": PROBE_SECONDS,
        "timeoutSeconds": PROBE_SECONDS,
        "failureThreshold": 1,
    }


def mount_of(job, given, is_mount):
    """Pods mount the claim under its path here. Errors: LaunchError (USAGE) if folders of the job are elsewhere."""
    above = (folder for folder in (job.folder, *job.folder.parents) if is_mount(folder))
    mount = next(above, pathlib.Path("/"))
    if "--mount" in given:
        mount = pathlib.Path(require_one_line("--mount", given["--mount"]))
    if not mount.is_absolute() or mount == pathlib.Path("/"):
        raise UsageError(
            f"--mount is {mount}, where a pod cannot mount the claim"
            if "--mount" in given
            else f"{job.folder} is not on a separate mount here",
            "Give --mount FOLDER: where the claim is mounted, here and in pods",
        )
    folders = {
        "the job": job.folder,
        "its output": job.output,
        "the working folder of job init": job.facts["folder"],
        "--write-path": job.facts.get("write_path"),
    }
    for what, folder in folders.items():
        if folder and folder != "/" and mount not in (pathlib.Path(folder), *pathlib.Path(folder).parents):
            raise UsageError(
                f"pods see {mount}, and {what}, {folder}, is outside it",
                "Begin the job with all its folders, and the working folder, in one that pods see",
            )
    return mount
