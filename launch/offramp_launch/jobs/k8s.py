"""`job k8s`: a job as an Indexed Job of Kubernetes, in YAML. Each index is one shard, and is tried again if another try may succeed."""

import ipaddress
import json
import os
import pathlib
import re

from offramp_launch.arguments import take_values
from offramp_launch.exit_code import ExitCode, LaunchError
from offramp_launch.jobs.engine import DRAIN_SECONDS, at_least_one, gpus_of, refuse_done, require_one_line
from offramp_launch.jobs.shard_exit import TRY_AGAIN, final_codes
from offramp_launch.watching import address

FLAGS = ("--image", "--claim", "--mount", "--name", "--gpus-per-shard", "--cpus", "--memory", "--shm", "--at-once", "--secret")
TRIES_AGAIN = 5
PROBE_SECONDS = 10
SHARED_MEMORY = "16Gi"
# Kubernetes appends the index to this name to name pods.
LONGEST_NAME = 52
NAME = r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?"
QUANTITY = r"\d+(\.\d+)?([kMGTP]|[KMGTP]i)?"


def manifest(job, given, flags, is_mount=os.path.ismount):
    """`given`: values of FLAGS. `flags`: of each shard's run. Errors: LaunchError."""
    records = job.records()
    refuse_done(job, [index for index in range(job.shards) if index not in records])
    name = name_of(job, given)
    return (f"# {job.shards} shards of {job.id}, one index each; pods of completed shards exit immediately. kubectl apply -f FILE\n"
            + as_yaml({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "labels": {"app.kubernetes.io/name": "offramp"}},
                       "spec": spec_of(job, given, flags, is_mount)}))


def spec_of(job, given, flags, is_mount):
    return {"completionMode": "Indexed",
            "completions": job.shards,
            "parallelism": at_least_one(given, "--at-once", job.shards),
            "backoffLimitPerIndex": TRIES_AGAIN,
            # One attempt at a shard at a time, even if locks do not work across nodes.
            "podReplacementPolicy": "Failed",
            "podFailurePolicy": {"rules": [
                {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
                {"action": "Count", "onExitCodes": {"containerName": "shard", "operator": "In", "values": [TRY_AGAIN]}},
                {"action": "FailIndex", "onExitCodes": {"containerName": "shard", "operator": "In", "values": final_codes()}}]},
            "template": {"spec": {
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": DRAIN_SECONDS,
                "containers": [container_of(job, given, flags, mount_of(job, given, is_mount))],
                "volumes": [{"name": "job", "persistentVolumeClaim": {"claimName": named("--claim", given)}},
                            {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": quantity("--shm", given.get("--shm", SHARED_MEMORY))}}]}}}


def container_of(job, given, flags, mount):
    """The image's entry point is the command `offramp`; JOB_COMPLETION_INDEX gives the shard's index."""
    gpus = gpus_of(job, given, flags)
    memory = {"memory": quantity("--memory", given["--memory"])} if "--memory" in given else {}
    limits = {**({"nvidia.com/gpu": gpus} if gpus else {}), **memory}
    requests = {**({"cpu": at_least_one(given, "--cpus", 1)} if "--cpus" in given else {}), **memory}
    resources = {key: value for key, value in (("limits", limits), ("requests", requests)) if value}
    return {"name": "shard",
            "image": require_one_line("--image", required("--image", given)),
            "args": ["shard", "--job", require_one_line("the job's folder", str(job.folder)), *(require_one_line("a flag", flag) for flag in flags)],
            **({"envFrom": [{"secretRef": {"name": named("--secret", given)}}]} if "--secret" in given else {}),
            **({"resources": resources} if resources else {}),
            **watched_by(flags),
            "volumeMounts": [{"name": "job", "mountPath": str(mount)}, {"name": "shm", "mountPath": "/dev/shm"}]}


def watched_by(flags):
    """
    With --http: the port, and a readiness probe that reports whether the shard is at work. There is no liveness probe: the shard checks the output
    before its run and hashes parts after it, for any length of time, and does not answer meanwhile.
    """
    text = take_values(flags, (address.FLAG,))[0].get(address.FLAG)
    if text is None:
        return {}
    host, port = address.parsed(text)
    if port == 0 or ipaddress.ip_address(address.numeric(host)).is_loopback:
        raise LaunchError(f"{address.FLAG} is {text}, which a cluster cannot reach", f"Give {address.FLAG} 0.0.0.0:9464", ExitCode.USAGE)
    return {"ports": [{"name": "metrics", "containerPort": port}],
            "readinessProbe": {"httpGet": {"path": "/readyz", "port": port}, "periodSeconds": PROBE_SECONDS, "timeoutSeconds": PROBE_SECONDS, "failureThreshold": 1}}


def required(name, given):
    if not given.get(name):
        raise LaunchError(f"{name} is not given", "Give --image IMAGE with Offramp in it, and --claim NAME of a volume that all pods mount", ExitCode.USAGE)
    return given[name]


def named(flag, given):
    if not re.fullmatch(NAME, required(flag, given)):
        raise LaunchError(f"{flag} is '{given[flag]}', which is not a Kubernetes name", "Give lowercase letters, digits and '-'", ExitCode.USAGE)
    return given[flag]


def name_of(job, given):
    name = given.get("--name", f"offramp-{job.id}")
    if len(name) > LONGEST_NAME or not re.fullmatch(NAME, name) or "." in name:
        raise LaunchError(f"--name is '{name}', which cannot name pods", f"Give at most {LONGEST_NAME} lowercase letters, digits and '-'", ExitCode.USAGE)
    return name


def quantity(flag, text):
    if not re.fullmatch(QUANTITY, text, re.ASCII):
        raise LaunchError(f"{flag} is '{text}', which is not a Kubernetes quantity", "Give one such as 16Gi", ExitCode.USAGE)
    return text


def mount_of(job, given, is_mount):
    """Pods mount the claim under the path that it has here. Errors: LaunchError (USAGE) if folders of the job are elsewhere."""
    mount = pathlib.Path(require_one_line("--mount", given["--mount"])) if "--mount" in given else mount_point(job.folder, is_mount)
    if not mount.is_absolute() or mount == pathlib.Path("/"):
        raise LaunchError(f"--mount is {mount}, where a pod cannot mount the claim" if "--mount" in given else f"{job.folder} is not on a separate mount here",
                          "Give --mount FOLDER: where the claim is mounted, here and in pods", ExitCode.USAGE)
    for what, folder in (("the job", job.folder), ("its output", job.output), ("the working folder of job init", job.facts["folder"]),
                         *((("--write-path", job.facts["write_path"]),) if job.facts.get("write_path") else ())):
        if mount not in (pathlib.Path(folder), *pathlib.Path(folder).parents) and str(folder) != "/":
            raise LaunchError(f"pods see {mount}, and {what}, {folder}, is outside it", "Begin the job with all its folders, and the working folder, in one that pods see",
                              ExitCode.USAGE)
    return mount


def mount_point(folder, is_mount):
    while not is_mount(folder) and folder != folder.parent:
        folder = folder.parent
    return folder


def as_yaml(value):
    return "\n".join(lines_of(value)) + "\n"


def lines_of(value):
    """Block style, with lists of plain values on one line."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if is_plain(inner):
                yield f"{key}: {plain(inner)}"
            else:
                yield f"{key}:"
                yield from (f"  {line}" for line in lines_of(inner))
    else:
        for inner in value:
            first, *rest = lines_of(inner)
            yield f"- {first}"
            yield from (f"  {line}" for line in rest)


def is_plain(value):
    return not isinstance(value, (dict, list)) or isinstance(value, list) and not any(isinstance(inner, (dict, list)) for inner in value)


def plain(value):
    """JSON is valid YAML; a word that YAML cannot take for another type needs no quotes."""
    if isinstance(value, list):
        return "[" + ", ".join(map(plain, value)) + "]"
    is_word = isinstance(value, str) and re.fullmatch(r"[A-Za-z/][\w./-]*", value, re.ASCII) and value.lower() not in ("true", "false", "null", "yes", "no", "on", "off", "y", "n")
    return value if is_word else json.dumps(value, ensure_ascii=False)
