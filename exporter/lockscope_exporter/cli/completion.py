"""``lockscope completion``: the script that a shell reads to complete commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from lockscope_exporter.cli.group import COMPLETE_VARIABLE

SHELLS = {
    "bash": 'eval "$(lockscope completion bash)"       in ~/.bashrc',
    "zsh": 'eval "$(lockscope completion zsh)"        in ~/.zshrc, after compinit',
    "fish": "lockscope completion fish | source        in ~/.config/fish/config.fish",
}


@click.command(
    epilog="To switch it on, put one line into the shell's start file: " + "; ".join(SHELLS.values()) + "."
)
@click.argument("shell", type=click.Choice(tuple(SHELLS)), metavar="SHELL")
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the completion script for SHELL."""
    complete = get_completion_class(shell)
    if complete is None:
        raise click.UsageError(f"no completion for {shell}", ctx)
    click.echo(complete(ctx.find_root().command, {}, "lockscope", COMPLETE_VARIABLE).source())
