"""`gemini-bridge completion`: prints the completion script of a shell, made from the parsers.

The scripts hold all words themselves, because starting the program at each press of Tab would take too long.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from bridge.cli.command import PROGRAM, Command, Example

if TYPE_CHECKING:
    from bridge.cli.outline import Argument, Outline


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=tuple(_SCRIPTS), help="the shell")


def _run(arguments: argparse.Namespace) -> int:
    from bridge.cli.outline import outline  # imports every command

    print(_SCRIPTS[arguments.shell](outline()), end="")
    return 0


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _paths(top: Outline) -> str:
    """A pattern for `case`: the paths of all commands."""
    return " | ".join(_quoted(each.path) for each in top.all() if each.words)


def _options(command: Outline) -> list[str]:
    return [flag for argument in command.arguments for flag in argument.flags]


def _positional_values(command: Outline) -> list[str]:
    return [
        *(each.words[-1] for each in command.below),
        *(value for argument in command.arguments if not argument.flags for value in argument.values),
    ]


def _takes_file(command: Outline) -> bool:
    return any(argument.is_file and not argument.flags for argument in command.arguments)


def _valued(command: Outline) -> list[Argument]:
    """The options that take a value."""
    return [argument for argument in command.arguments if argument.flags and argument.metavar]


# --- bash --------------------------------------------------------------------------------------------


def _bash(top: Outline) -> str:
    values = "".join(_bash_values(each) for each in top.all())
    words = "".join(_bash_words(each) for each in top.all())
    return f"""# bash completion of {PROGRAM}
_gemini_bridge() {{
    local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD - 1]}} path= i
    for ((i = 1; i < COMP_CWORD; i++)); do
        case "${{path:+$path }}${{COMP_WORDS[i]}}" in
            {_paths(top)}) path="${{path:+$path }}${{COMP_WORDS[i]}}" ;;
        esac
    done
    COMPREPLY=()
    case "$path $previous" in
{values}    esac
    if [[ $current == -* ]]; then
        set -- options
    else
        set -- words
    fi
    case "$path $1" in
{words}    esac
}}
complete -F _gemini_bridge {PROGRAM}
"""


def _bash_values(command: Outline) -> str:
    lines = []
    for argument in _valued(command):
        case = " | ".join(_quoted(f"{command.path} {flag}") for flag in argument.flags)
        lines.append(f"        {case}) {_bash_reply(argument.values, argument.is_file)}; return ;;\n")
    return "".join(lines)


def _bash_words(command: Outline) -> str:
    options = f"{_quoted(command.path + ' options')}) {_bash_reply(_options(command), False)}"
    words = f"{_quoted(command.path + ' words')}) "
    words += _bash_reply(_positional_values(command), _takes_file(command))
    return f"        {options} ;;\n        {words} ;;\n"


def _bash_reply(values: list[str] | tuple[str, ...], is_file: bool) -> str:
    if is_file:
        return 'compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- "$current")'
    if not values:
        return ":"
    return f'mapfile -t COMPREPLY < <(compgen -W {_quoted(" ".join(values))} -- "$current")'


# --- zsh ---------------------------------------------------------------------------------------------


def _zsh(top: Outline) -> str:
    values = "".join(_zsh_values(each) for each in top.all())
    words = "".join(_zsh_words(each) for each in top.all())
    return f"""#compdef {PROGRAM}
_gemini_bridge() {{
    local location= i
    for ((i = 2; i < CURRENT; i++)); do
        case "${{location:+$location }}$words[i]" in
            {_paths(top)}) location="${{location:+$location }}$words[i]" ;;
        esac
    done
    case "$location $words[CURRENT-1]" in
{values}    esac
    local -a options found
    case "$location" in
{words}    esac
    if [[ $words[CURRENT] == -* ]]; then
        _describe -o option options
    elif (( $#found )); then
        _describe value found
    fi
}}
if [[ $funcstack[1] == _gemini-bridge ]]; then
    _gemini_bridge "$@"
else
    compdef _gemini_bridge {PROGRAM}
fi
"""


def _zsh_values(command: Outline) -> str:
    lines = []
    for argument in _valued(command):
        case = " | ".join(_quoted(f"{command.path} {flag}") for flag in argument.flags)
        reply = "_files" if argument.is_file else ":"
        if argument.values:
            reply = "compadd -- " + " ".join(map(_quoted, argument.values))
        lines.append(f"        {case}) {reply}; return ;;\n")
    return "".join(lines)


def _zsh_words(command: Outline) -> str:
    options = " ".join(
        _zsh_pair(flag, argument.help) for argument in command.arguments for flag in argument.flags
    )
    below = {each.words[-1]: each.help for each in command.below}
    found = " ".join(_zsh_pair(value, below.get(value, "")) for value in _positional_values(command))
    files = " [[ $words[CURRENT] == -* ]] || _files;" if _takes_file(command) else ""
    return f"        {_quoted(command.path)}) options=({options}); found=({found});{files} ;;\n"


def _zsh_pair(word: str, help: str) -> str:
    return _quoted(f"{word}:{help}" if help else word)


# --- fish --------------------------------------------------------------------------------------------


def _fish(top: Outline) -> str:
    paths = " ".join(_fish_quoted(each.path) for each in top.all() if each.words)
    lines = [line for each in top.all() for line in _fish_lines(each)]
    return f"""# fish completion of {PROGRAM}
function __gemini_bridge_at
    set -l path
    for word in (commandline -opc)[2..-1]
        if contains -- (string join ' ' -- $path $word) {paths}
            set -a path $word
        end
    end
    test (string join ' ' -- $path | string collect -a) = "$argv[1]"
end
complete -c {PROGRAM} -f
""" + "".join(f"complete -c {PROGRAM} {line}\n" for line in lines)


def _fish_lines(command: Outline) -> list[str]:
    here = f"-n {_fish_quoted(f'__gemini_bridge_at {_fish_quoted(command.path)}')}"
    below = {each.words[-1]: each.help for each in command.below}
    lines = [
        f"{here} -a {_fish_quoted(value)} -d {_fish_quoted(below.get(value, ''))}"
        for value in _positional_values(command)
    ]
    if _takes_file(command):
        lines.append(f"{here} -F")
    return lines + [f"{here} {_fish_option(each)}" for each in command.arguments if each.flags]


def _fish_option(argument: Argument) -> str:
    flags = " ".join(
        f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in argument.flags
    )
    value = ""
    if argument.metavar:
        value = " -rF" if argument.is_file else " -x"
    if argument.values:
        value += f" -a {_fish_quoted(' '.join(argument.values))}"
    return f"{flags}{value} -d {_fish_quoted(argument.help)}"


def _fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


_SCRIPTS: Mapping[str, Callable[[Outline], str]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}

COMPLETION = Command(
    _run,
    "print the completion script of a shell",
    _arguments,
    (
        Example("completion bash > ~/.local/share/bash-completion/completions/gemini-bridge", "bash"),
        Example("completion zsh > ~/.zfunc/_gemini-bridge", "zsh, if ~/.zfunc is in $fpath"),
        Example("completion fish > ~/.config/fish/completions/gemini-bridge.fish", "fish"),
    ),
)
