"""Reads the configuration of a sentence-transformers folder. Refuses keys that change vectors in an unsupported way."""

import dataclasses
import importlib.metadata
import json
import pathlib
import platform

from offramp_launch.exit_code import InputError, LaunchError, NotFoundError

OWN_FUNCTION = "Export your own function that computes the vectors (FILE.py:FUNCTION)"
# The transformer's file; older versions named it after the kind of model.
TRANSFORMER_FILES = tuple(
    f"sentence_{kind}_config.json"
    for kind in ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
)
POOLINGS = {"mean", "cls"}
# Flags of older versions.
POOLING_FLAGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
OLDER_NAMES = {"model_args": "model_kwargs", "tokenizer_args": "processor_kwargs", "config_args": "config_kwargs"}
# Without effect on vectors.
MODEL_KWARGS = {"attn_implementation", "add_pooling_layer", "low_cpu_mem_usage", "use_safetensors"}
TEXT_ALONE = {"text": {"method": "forward", "method_output_name": "last_hidden_state"}}


@dataclasses.dataclass
class SentenceFolder:
    """`folder`: has the transformer and its tokenizer."""

    folder: pathlib.Path
    has_modules: bool = False
    prompt: str = ""  # before each text
    truncate_dim: int = None  # vectors keep so many numbers
    max_seq_length: int = None
    lower_case: bool = False
    model_kwargs: dict = dataclasses.field(default_factory=dict)
    processor_kwargs: dict = dataclasses.field(default_factory=dict)
    config_kwargs: dict = dataclasses.field(default_factory=dict)
    pooling: str = "mean"
    normalised: bool = False


class File:
    """The object in a JSON file. Readers take the keys that they know; end() refuses the rest."""

    def __init__(self, path):
        self.path, self._left = path, content(path)
        if not isinstance(self._left, dict):
            raise InputError(f"{path} is not a JSON object", "Is the folder complete?")

    def take(self, key, default=None):
        return self._left.pop(key, default)

    def only(self, key, *accepted):
        """Takes a key that supports only these values, None, or absence."""
        value = self._left.pop(key, None)
        if value is not None and value not in accepted:
            self.refuse(key, value)

    def refuse(self, key, value):
        raise InputError(
            f"{self.path} has {key} = {json.dumps(value)[:200]}, which export does not support", OWN_FUNCTION
        )

    def end(self):
        for key, value in self._left.items():
            self.refuse(key, value)


def read(folder):
    """Errors: LaunchError names the file and the key."""
    folder = pathlib.Path(folder)
    if not folder.is_dir():
        raise NotFoundError(f"{folder} is not a folder", "Give the folder of a sentence-transformers model")
    found = SentenceFolder(folder)
    modules = content(folder / "modules.json")
    if not modules:
        return found
    found.has_modules = True
    read_model(File(folder / "config_sentence_transformers.json"), found)
    try:
        kinds = [read_module(folder, part, found) for part in modules]
    except (AttributeError, TypeError) as problem:
        raise InputError(
            f"{folder / 'modules.json'} is not a list of modules: {problem}", "Is the folder complete?"
        ) from problem
    if kinds[:2] != ["Transformer", "Pooling"] or kinds[2:] not in ([], ["Normalize"]):
        raise InputError(
            f"{folder / 'modules.json'} has the modules {', '.join(kinds)}",
            "Export supports Transformer, Pooling and optionally Normalize, in this order. " + OWN_FUNCTION,
        )
    return found


def read_model(file, found):
    file.only("model_type", "SentenceTransformer")
    file.take("__version__")
    file.take("similarity_fn_name")  # compares vectors, without changing them
    check_requirements(file, file.take("requirements"))
    prompts, name = {"query": "", "document": "", **(file.take("prompts") or {})}, file.take("default_prompt_name")
    if name is not None and name not in prompts:
        raise InputError(
            f"{file.path} has default_prompt_name = {json.dumps(name)}, but no prompt of that name",
            f"Set default_prompt_name to one of: {', '.join(prompts)}",
        )
    found.prompt = prompts.get(name) or ""
    found.truncate_dim = file.take("truncate_dim")
    file.end()


def check_requirements(file, requirements):
    """Checks package versions: with others, the model computes different vectors. Errors: LaunchError."""
    if not isinstance(requirements, dict):
        return
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    for name, wanted in requirements.items():
        package = {"pytorch": "torch"}.get(name, name)
        try:
            versions = SpecifierSet(wanted.get("specifier", "") if isinstance(wanted, dict) else wanted)
        except (InvalidSpecifier, AttributeError, TypeError):
            continue  # sentence-transformers ignores invalid specifiers too
        if package.replace("_", "-") != "sentence-transformers" and not is_met(package, versions):
            raise LaunchError(
                f"{file.path} has unmet requirements: {name}{versions}", f"pip install '{package}{versions}'"
            )


def is_met(package, versions):
    try:
        there = platform.python_version() if package == "python" else importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return False
    return versions.contains(there, prereleases=True)


def read_module(folder, part, found):
    """Reads one module and returns its kind."""
    place = folder / part.get("path", "")
    kind = part["type"].rpartition(".")[2]
    readers = {"Transformer": read_transformer, "Pooling": read_pooling, "Normalize": read_normalize}
    if kind not in readers or not part["type"].startswith("sentence_transformers."):
        raise InputError(
            f"{folder} has a module of type {part['type'] if kind in readers else kind}",
            f"Export supports only sentence-transformers' own Transformer, Pooling and Normalize. {OWN_FUNCTION}",
        )
    if kwargs := part.get("kwargs"):
        raise InputError(
            f"{folder / 'modules.json'} has kwargs = {json.dumps(kwargs)} for {kind}, which export does not support",
            OWN_FUNCTION,
        )
    readers[kind](place, found)
    return kind


def read_transformer(place, found):
    found.folder = place
    file = File(
        next((place / name for name in TRANSFORMER_FILES if (place / name).is_file()), place / TRANSFORMER_FILES[0])
    )
    if (place / "adapter_config.json").is_file():
        raise InputError(
            f"{place / 'adapter_config.json'}: the transformer is an adapter of another model (PEFT)",
            "Merge it first: model.merge_and_unload(), then save_pretrained()",
        )
    found.max_seq_length, found.lower_case = file.take("max_seq_length"), bool(file.take("do_lower_case"))
    for older, name in OLDER_NAMES.items():
        older_value = file.take(older)
        newer = file.take(name)
        kwargs = dict((newer if older_value is None else older_value) or {})
        kwargs.pop("trust_remote_code", None)  # sentence-transformers ignores it in a file
        setattr(found, name, kwargs)
    for key, value in found.model_kwargs.items():
        if key not in MODEL_KWARGS and not (key in ("dtype", "torch_dtype") and value in ("float32", "auto")):
            file.refuse(f"model_kwargs.{key}", value)
    file.only("transformer_task", "feature-extraction")
    file.only("modality_config", TEXT_ALONE)
    file.only("module_output_name", "token_embeddings")
    file.only("processing_kwargs", {})
    file.only("backend", "torch")
    file.take("unpad_inputs")  # affects only how flash attention computes
    for key in ("query_length", "document_length", "query_expansion", "tokenizer_name_or_path"):
        file.only(key)
    file.end()


def read_pooling(place, found):
    file = File(place / "config.json")
    flags = [name for flag, name in POOLING_FLAGS.items() if file.take(flag)]
    mode = file.take("pooling_mode")
    modes = flags or ["mean"] if mode is None else [mode] if isinstance(mode, str) else mode
    if len(modes) != 1 or modes[0] not in POOLINGS:
        raise InputError(
            f"{file.path} pools by {', '.join(map(str, modes))} (pooling_mode)",
            f"Export supports the mean of the tokens and the first token. {OWN_FUNCTION}",
        )
    found.pooling = modes[0]
    file.take("embedding_dimension"), file.take("word_embedding_dimension")
    if file.take("include_prompt") is False and found.prompt:
        file.refuse("include_prompt", False)
    file.end()


def read_normalize(place, found):
    file = File(place / "config.json")
    for key in ("module_input_name", "module_output_name"):
        file.only(key, "sentence_embedding")
    file.end()
    found.normalised = True


def content(file):
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as problem:
        raise InputError(f"{file} is not JSON: {problem}", "Is the folder complete?") from problem
