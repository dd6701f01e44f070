"""The benchmark's tables, in Markdown, from its results."""

from contestants import flag_list

SMALL = "small sizes, no measurement"
MULTIPLES = (("GB/s", 1e9), ("MB/s", 1e6), ("kB/s", 1e3))


def header(about, pace, small):
    machine, build, other = about["machine"], about["build"], about.get("other_build")
    gpu = (
        f"{machine['device']}, driver {machine['driver']}, CUDA {machine['cuda']}, {machine['link'] or 'link unknown'}"
        if machine["gpu"]
        else "no GPU"
    )
    lines = [
        "# Offramp's benchmark" + (f": {SMALL}" if small else ""),
        "",
        f"- machine: {gpu}; {machine['processor']}, {machine['cores']} cores, {machine['memory_gib']} GiB, Linux {machine['kernel']}",
        f"- build: {described(build)}; Python {build['python']}, PyTorch {build['torch']}",
        *([f"- other build: {described(other)}"] if other else []),
        f"- {pace.windows} windows of ≥ {pace.seconds:g} s each, alternating; after {pace.warmup_batches} batches of warm-up; rates are "
        "medians (min–max); ratios are taken between neighbouring windows, median [95 % t-interval of the mean]",
        "- sizes and settings: below each row, as each contestant was started",
    ]
    return "\n".join(lines) + "\n"


def described(build):
    return f"{build['version']}, revision {build['revision'] or 'unknown'}, {flags_of(build)}"


def flags_of(build):
    flags = build["compiler_flags"]
    if not flags:
        return "compiler flags unknown"
    kind = flags.get("CMAKE_BUILD_TYPE", "")
    return " ".join(filter(None, [kind, flags.get("CMAKE_CXX_FLAGS"), flags.get(f"CMAKE_CXX_FLAGS_{kind.upper()}")]))


def row_table(result):
    """One row's section: its contestants and targets."""
    lines = [f"## {result['row']}", "", result["description"], ""]
    if result["failure"]:
        return "\n".join([*lines, f"FAILED: {result['failure'].strip()}", ""])
    if result["left_out"]:
        return "\n".join([*lines, f"Left out: {result['left_out']}.", ""])
    if result["kind"] == "contest":
        lines += contest_table(result)
    if result["kind"] == "curve":
        lines += curve_table(result)
    if result["kind"] in ("latency", "start"):
        lines += figure_table(result)
    lines += ["", *started_lines(result)]
    if result["targets"]:
        lines += ["", *target_table([result])]
    return "\n".join([*lines, *[f"\nNote: {note}." for note in result["notes"]], ""])


def contest_table(result):
    ours = result["ours"]
    lines = [
        f"| contestant | {result['unit']}/s | payload | {ours} over it | compute ms a batch | CPU ms a {singular(result['unit'])}: producer, readers | "
        "page faults a batch | private MiB |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, figures in result["contestants"].items():
        found = result["ratios_of"].get(ours, {}).get(name)
        over = interval(found) if found else "–"
        rate = figures["rate"]
        middle = {
            key: value["median"] for key, value in figures.items() if isinstance(value, dict) and "median" in value
        }
        lines.append(
            f"| {name} | {rate['median']:.5g} ({rate['min']:.5g}–{rate['max']:.5g}) | "
            f"{bandwidth(rate['median'] * middle['bytes_per_batch'])} | {over} | {milliseconds(figures.get('compute_ms_per_batch'))} | "
            f"{middle['producer_cpu_ms_per_batch']:.3g}, {middle['readers_cpu_ms_per_batch']:.3g} | "
            f"{middle['producer_faults_per_batch']:.2g}, {middle['readers_faults_per_batch']:.2g} | "
            f"{middle['producer_private_mib']:.0f}, {middle['readers_private_mib']:.0f} |"
        )
    lines += thread_lines(result)
    for name, other in result["beside"]:
        lines.append(f"\n{name} over {other}: {interval(result['ratios_of'][name][other])}")
    return lines


def thread_lines(result):
    """Our producer's CPU time by thread; threads below 2 % are left out."""
    threads = result["contestants"][result["ours"]].get("producer_threads_cpu_ms_per_batch") or {}
    shown = [f"{name} {ms:.3g}" for name, ms in threads.items() if ms > 0.02 * sum(threads.values())]
    return (
        [f"\nCPU of {result['ours']}'s producer by thread, ms a {singular(result['unit'])}: {', '.join(shown)}"]
        if shown
        else []
    )


def milliseconds(found):
    return f"{found['median']:.4g} ({found['min']:.4g}–{found['max']:.4g})" if found else "–"


def interval(ratio):
    return f"{ratio['median']:.4g} [{ratio['low']:.4g}, {ratio['high']:.4g}]"


def started_lines(result):
    """The sizes and settings behind a row's figures."""
    settled = (
        f", each settled for {result['settle_seconds']:g} s before a window"
        if result["kind"] in ("contest", "curve")
        else ""
    )
    lines = [f"Started as follows{settled}:", ""]
    for name, how in result["started_as"].items():
        counts = how["readers"] if isinstance(how["readers"], (list, tuple)) else [how["readers"]]
        readers = f", readers: {', '.join(map(str, counts))}" if any(counts) else ""
        reading = f", which read with {how['reads_with']}" if how["reads_with"] else ""
        own = f" with `{' '.join(flag_list(how['readers_flags']))}`" if how["readers_flags"] else ""
        lines.append(f"- {name}: `{' '.join([how['program'], *flag_list(how['flags'])])}`{readers}{own}{reading}")
    return lines


def curve_table(result):
    lines = [
        "| consumers | batches/s | compute alone beside it | E | compute ms a batch: its, alone |",
        "|---|---|---|---|---|",
    ]
    for point in result["curve"]:
        lines.append(
            f"| {point['consumers']} | {point['rate']['median']:.5g} ({point['rate']['min']:.5g}–{point['rate']['max']:.5g}) | "
            f"{point['limit']['median']:.5g} | {interval(point['ratio'])} | {milliseconds(point['compute'])}, {milliseconds(point['compute_of_limit'])} |"
        )
    return lines


def figure_table(result):
    keys = sorted({key for figures in result["contestants"].values() for key in figures["figures"]})
    lines = [
        "| contestant | " + " | ".join(key.replace("_", " ") for key in keys) + " |",
        "|---" * (len(keys) + 1) + "|",
    ]
    for name, figures in result["contestants"].items():
        cells = [
            f"{found['median']:.4g} ({found['min']:.4g}–{found['max']:.4g})"
            if (found := figures["figures"].get(key))
            else "–"
            for key in keys
        ]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines + histogram_lines(result)


def histogram_lines(result):
    lines = []
    for name, figures in result["contestants"].items():
        histogram = figures.get("histogram")
        if histogram:
            largest = max(count for _, count in histogram)
            lines += ["", f"{name}, how many took up to so many µs:", "", "```"]
            lines += [f"{upper:>10.5g}  {count:>7}  {'#' * round(50 * count / largest)}" for upper, count in histogram]
            lines.append("```")
    return lines


def target_table(results):
    lines = ["| row | what | to reach | found | | reason |", "|---|---|---|---|---|---|"]
    for result in results:
        if result["failure"]:
            lines.append(f"| {result['row']} | | | | failed | {result['failure'].strip().splitlines()[0]} |")
        if result["left_out"]:
            lines.append(f"| {result['row']} | | | | left out | {result['left_out']} |")
        for target in result["targets"]:
            lines.append(
                f"| {result['row']} | {target['what']} | {target['wanted']} | {target['found']} | "
                f"{'reached' if target['reached'] else 'missed'} | {target['reason']} |"
            )
    return lines


def summary(results):
    return "\n".join(["## Targets", "", *target_table(results), ""])


def singular(unit):
    return {"batches": "batch"}.get(unit, unit.removesuffix("s"))


def bandwidth(bytes_per_second):
    if bytes_per_second <= 0:
        return "–"
    for unit, size in MULTIPLES:
        if bytes_per_second >= size:
            return f"{bytes_per_second / size:.3g} {unit}"
    return f"{bytes_per_second:.3g} B/s"
