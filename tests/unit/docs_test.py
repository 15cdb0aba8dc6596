"""The commands and programs of the documentation: docs_test.py options | minutes | citation | plain | page NAME.

options: every `optrush` command in a block of shell has an existing subcommand, with options that it has.
minutes: the table of minutes has every experiment with a limit, and its limits; and each published report's minutes.
citation: CITATION.cff has what the format requires, and the version and license of the program.
plain: the scripts of experiments/plain have at most 15 lines, and can be planned. Each long experiment has one.
page: the blocks `console` and `python` of docs/*/NAME.md run, in their order, and print what the page shows. A
number of a measurement may be another one, and `...` stands for any lines."""
import contextlib
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SOURCE, BUILD = pathlib.Path(os.environ["OPTRUSH_SOURCE_DIR"]), pathlib.Path(os.environ["OPTRUSH_BUILD_DIR"])
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^(?:\$ )?(?:\w+=\S+ )*(?:srun .*?|torchrun .*?|mpirun .*?)?(?:\./)?optrush (.*)$")
LAUNCHER = {"setup", "test", "wheel", "docs"}  # ./optrush itself
NUMBER = re.compile(r"\d[\d,.]*")


def pages():
    return [SOURCE / "README.md", *sorted(SOURCE.glob("docs/**/*.md"))]


def commands(page):
    """The words after `optrush` in each command of the page's blocks, without comments."""
    for language, block in FENCE.findall(page.read_text()):
        if language not in ("sh", "console"):
            continue
        for line in re.sub(r"\\\n *", "", block).splitlines():
            if (language == "sh" or line.startswith("$ ")) and (found := COMMAND.match(line)):
                yield re.sub(r"(^| )#.*| [>|&].*| -- .*", "", found[1]).split()


def check_options():
    reference = (SOURCE / "docs/reference/cli.md").read_text()
    sections = {part.split("\n", 1)[0].strip("` "): part for part in reference.split("\n## ")[1:]}
    count, faults = 0, []
    for page in pages():
        for words in commands(page):
            if not words or words[0] in LAUNCHER or words[0].isupper() or words[0].startswith("-"):
                continue
            count += 1
            section = sections.get(words[0])
            if section is None:
                faults.append(f"{page}: there is no command '{words[0]}'")
                continue
            faults += [f"{page}: optrush {words[0]} has no option '{word}'" for word in words[1:]
                       if word.startswith("--") and not re.search(rf"{re.escape(word.split('=')[0])}\b", section)]
    assert count > 40, count
    assert not faults, "\n".join(faults)


def check_minutes():
    page = (SOURCE / "docs/guides/shipped_experiments.md").read_text()
    page = page.split("## Minutes and price\n", 1)[1].split("\n## ")[0]
    shown, measured = {}, {}
    for names, limits, minutes in re.findall(r"^\| (`.*`) \| (.*) \| (.*) \|$", page, re.MULTILINE):
        for name in re.findall(r"`(\w+)`", names):
            shown[name], measured[name] = re.findall(r"\d+", limits), minutes.split(" on ")[0]
    reports = (SOURCE / "reports/README.md").read_text()
    published = re.findall(r"^\| \[(\w+)\]\(.*?\) \| .*? \| [\d-]+ \| (.*?) \|", reports, re.MULTILINE)
    assert {name: minutes for name, minutes in measured.items() if minutes != "—"} == dict(published), measured
    shown = {name: minutes for name, minutes in shown.items() if minutes}
    limits = {file.stem: re.findall(r'"(\d+)m"', "".join(re.findall(r"at_most = .*", file.read_text())))
              for file in SOURCE.glob("experiments/*.lua")}
    limits = {name: minutes for name, minutes in limits.items() if minutes}
    assert shown and {name: sorted(found) for name, found in shown.items()} == \
        {name: sorted(found) for name, found in limits.items()}, (shown, limits)


def check_citation():
    fields = dict(re.findall(r"^([a-z-]+): *(.*)$", (SOURCE / "CITATION.cff").read_text(), re.MULTILINE))
    assert {"cff-version", "message", "title", "authors"} <= fields.keys(), fields
    version = re.search(r"project\(\w+ VERSION ([\d.]+)", (SOURCE / "CMakeLists.txt").read_text())[1]
    assert fields["version"] == version and fields["license"] == "Apache-2.0", fields


def check_plain():
    scripts = sorted(SOURCE.glob("experiments/plain/*.lua"))
    lines = {file.name: file.read_text().splitlines() for file in SOURCE.glob("experiments/*.lua")}
    missing = {name for name, text in lines.items() if len(text) > 75} - {script.name for script in scripts}
    assert scripts and not missing, f"without a plain form: {missing}"
    page = (SOURCE / "docs/guides/shipped_experiments.md").read_text()
    for script in scripts:
        assert len(script.read_text().splitlines()) <= 15, f"{script} has more than 15 lines"
        assert script.name in lines and f"plain/{script.name})" in page, f"{script} has no long form or no link"
        assert f"-- plain/{script.name} is a form of 15 lines, to copy." in lines[script.name], script
        command = [BUILD / "bin/optrush", "run", script, "--dry-run", "--as-gpu", "h100", "--skip-missing"]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0 and "failed" not in done.stdout, f"{script}\n{done.stdout}{done.stderr}"


def agrees(shown, printed):
    """Whether the output has the lines that the page shows."""
    lines = iter(NUMBER.sub("N", printed).splitlines())
    skipping = False
    for line in NUMBER.sub("N", shown).splitlines():
        if line == "...":
            skipping = True
            continue
        for other in lines:
            if line.split() == other.split():
                break
            if not skipping:
                return False
        else:
            return False
        skipping = False
    return skipping or next(lines, None) is None


def run_console(block, work):
    files = {**os.environ, "PATH": f"{BUILD / 'bin'}:{os.environ['PATH']}"}
    for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, shown = step.partition("\n")
        done = subprocess.run(["bash", "-c", command], cwd=work, env=files, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        assert done.returncode == 0 and agrees(shown, done.stdout), f"{command}\n{done.stdout}\ninstead of\n{shown}"


def run_python(block, values):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(block, "page", "exec"), values)
    return printed.getvalue()


def small_model(folder):
    """The model of the page: bytes as tokens, with a chat template."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM
    sys.path.insert(0, str(SOURCE / "tests/support"))
    from byte_tokenizer import save_byte_tokenizer
    torch.manual_seed(0)
    config = LlamaConfig(vocab_size=256, hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
                         num_key_value_heads=2, intermediate_size=172, max_position_embeddings=512)
    LlamaForCausalLM(config).save_pretrained(folder)
    save_byte_tokenizer(folder)
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    settings["chat_template"] = "{% for m in messages %}{{ '<' + m['role'] + '>' + m['content'] + '\\n' }}{% endfor %}"
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def run_page(name):
    text = min(SOURCE.glob(f"docs/*/{name}.md")).read_text()
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        if "rush.checkpoint" in text:
            small_model(work / "model")
            lines = ['{"messages": [{"role": "user", "content": "2 + %d?"}, {"role": "assistant", "content": "%d"}]}' %
                     (number, number + 2) for number in range(4)]
            (work / "chats.jsonl").write_text("\n".join(lines) + "\n")
        for file, lines in re.findall(r"^\$ cat (\w+\.jsonl)\n((?:\{.*\n)+)", text, re.MULTILINE):
            (work / file).write_text(lines)
        shutil.copytree(SOURCE / "reports/quickstart/epyc-2-cores", work / "reports/quickstart/epyc-2-cores")
        sys.path.insert(0, str(SOURCE / "scripts/python"))
        os.chdir(work)
        values, printed, ran = {}, None, 0
        for language, block in FENCE.findall(text):
            if language == "lua" and (file := re.search(r"Save this as `(\w+\.lua)`", text)):
                (work / file[1]).write_text(block)
            elif language == "console":
                run_console(block, work)
                ran += 1
            elif language == "python":
                printed = run_python(block, values)
                ran += 1
            elif language == "text" and printed is not None:
                assert printed == block, f"{name}: the program prints\n{printed}"
        assert ran, f"{name} has nothing that runs"


def check_agrees():
    assert agrees("a 1\n...\nb\n", "a 2.5\nx\ny\nb\n") and agrees("a\n...\n", "a\nb\n") and agrees("", "")
    assert not agrees("a\n", "a\nb\n") and not agrees("a\nb\n", "a\n") and not agrees("b\n", "a\n")


if __name__ == "__main__":
    check_agrees()
    if sys.argv[1] == "page":
        run_page(sys.argv[2])
    else:
        {"options": check_options, "minutes": check_minutes, "citation": check_citation,
         "plain": check_plain}[sys.argv[1]]()
