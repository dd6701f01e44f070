"""
For each fuzz target, a bound that its reader checks and the reader without it, which a fuzzer must find.

    twins.py --file TARGET            the source that is changed
    twins.py --plant TARGET OUTPUT    writes the changed source
    twins.py --list                   the targets
"""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

# target: (source, text that occurs there once, its replacement)
TWINS = {
    "message": (
        "common/wire/messages.cpp",
        "header.bytes != bytes.size() || total != bytes.size()",
        "header.bytes != bytes.size()",
    ),
    "slab-header": (
        "common/wire/slab_view.cpp",
        "record.text_offset <= texts.size() - text_bytes",
        "record.text_offset < ~0U",
    ),
    "ledger-region": (
        "consumer/session/run_views.cpp",
        "ledger_bytes >= wanted_bytes",
        "ledger_bytes >= sizeof header",
    ),
    "checkpoint": ("producer/runner/checkpoint/checkpoint_file.cpp", " || found.back().end > items", ""),
    "items-file": (
        "producer/runner/checkpoint/items_file.cpp",
        "names->second != source_fingerprint(hashes)",
        "names->second.empty()",
    ),
    "endpoint": (
        "common/transport/endpoint.cpp",
        "RunNames::check_run_id(endpoint.names.run_id);\n    } catch",
        "    } catch",
    ),
    "payload": (
        "common/dead_letters/payload_file.cpp",
        "} catch (const json::exception& problem) {",
        "} catch (const json::type_error& problem) {",
    ),
    "settings-file": ("common/app/settings/toml.cpp", "if (!parsed)", "if (!parsed && text.empty())"),
    "segment": (
        "consumer/sinks/segments/segment_merge.cpp",
        "if (!first_of_segment && entries.back().item == item)",
        "if (entries.back().item == item)",
    ),
    "input-list": ("common/app/images/item_keys.cpp", "if (!parts.empty()) parts.pop_back();", "parts.pop_back();"),
    "list-index": ("common/app/images/list_index.cpp", "index.parts.back().offset > index.list_bytes || ", ""),
    "tar": ("common/app/images/tar_index.cpp", "length > records.size() || ", ""),
    "npy": (
        "producer/runner/sources/npy_file.cpp",
        "result.ec != std::errc() || number < 0",
        "result.ec != std::errc()",
    ),
    "jsonl": ("common/app/images/jsonl_pictures.cpp", "path.find('\\0') != std::string::npos", "path.empty()"),
    "image": ("common/app/images/jpeg.cpp", " || length > file.size() - at - 2", ""),
    "bmp": (
        "common/app/images/bmp.cpp",
        "y_ < layout_.size.height && x_ < layout_.size.width",
        "y_ < layout_.size.height",
    ),
    "gif": ("common/app/images/gif.cpp", "code >= next_ && !is_next", "code > kGifCodes"),
    "webp": ("common/app/images/webp.cpp", "length >= 6 && ", ""),
    "tiff": ("common/app/images/tiff.cpp", "line_bytes > kMostPieceBytes / lines / pieces", "lines == 0"),
    "picture-rows": ("common/app/images/picture_parts.cpp", "std::min(bytes, reading->left)", "bytes"),
    "jsonl-texts": ("common/app/texts/jsonl_texts.cpp", "            taken.bytes -= kByteOrderMark.size();\n", ""),
    "parquet-texts": ("common/app/texts/parquet_rows_module.cpp", "if (!is_utf8(text))", "if (text.empty())"),
    "broker": (
        "producer/ledger/slab_ledger.cpp",
        "place == nullptr || HolderWord",
        "place == nullptr) return ReleaseOutcome::Completed;\n    if (HolderWord",
    ),
    "consumer-session": (
        "consumer/session/consumer_session.cpp",
        "static_cast<std::size_t>(std::min<std::uint64_t>(seen, records.size()))",
        "static_cast<std::size_t>(seen)",
    ),
}


def planted(target):
    """The changed source. Errors: SystemExit if the text does not occur exactly once."""
    source, old, new = TWINS[target]
    text = (ROOT / source).read_text()
    if text.count(old) != 1:
        raise SystemExit(
            f"twins.py: {target}: '{old}' occurs {text.count(old)} times in {source} instead of once: update TWINS"
        )
    return text.replace(old, new)


def main(words):
    if words == ["--list"]:
        print("\n".join(sorted(TWINS)))
        return
    if len(words) < 2 or words[1] not in TWINS:
        raise SystemExit(f"{__doc__}\ntargets with a twin: {', '.join(sorted(TWINS))}; every target needs one")
    if words[0] == "--file":
        print(TWINS[words[1]][0])
    else:
        output = pathlib.Path(words[2])
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(planted(words[1]))


if __name__ == "__main__":
    main(sys.argv[1:])
