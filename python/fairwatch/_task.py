"""What is asked, as the files that the program reads: agents, a prompt, and a pipeline that joins them.

A call of `map` is `ingest`, `chain` and `verify` in one process, as `fw init` writes them. All files are JSON, which is
YAML.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Union

from ._tables import ID, PROMPT, Row

Prompt = Union[str, Callable[[Row], str]]
Agent = Mapping[str, Any]

#: settings of an agent, which people look for among the options of a run
SAMPLING = {"temperature", "max_tokens", "top_p", "top_k", "min_p", "stop", "logprobs", "presence_penalty"}
#: what every agent must say, where nothing is said
USUAL = {"temperature": 0.0, "max_tokens": 1024}


def schema_of(schema: Any) -> Any:
    """A JSON Schema of a model of pydantic, or of what has `model_json_schema`; a dict is one already."""
    if schema is None or isinstance(schema, (dict, bool)):
        return schema
    made = getattr(schema, "model_json_schema", None)
    if callable(made):
        return made()
    expected = "a model of pydantic, or a dict that is a JSON Schema"
    raise TypeError(f"schema: expected {expected}, found {getattr(schema, '__name__', type(schema).__name__)}")


def expect_prompt(prompt: Prompt, columns: Optional[Sequence[str]]) -> None:
    """Raises ValueError where a text asks the same of every row, which nobody means."""
    if callable(prompt):
        return
    if not isinstance(prompt, str):
        raise TypeError(f"prompt: expected a text or a function of a row, found {type(prompt).__name__}")
    if "{{" in prompt or "{%" in prompt:
        _expect_names(prompt, columns or ())
        return
    single = re.search(r"\{(\w+)\}", prompt)
    if single:
        advice = f"columns are in two braces: {{{{ {single[1]} }}}}"
    elif prompt in (columns or ()):
        advice = f"the column itself is '{{{{ {prompt} }}}}'"
    else:
        advice = f"'{prompt[:40]} {{{{ {next(iter(columns or ()), 'column')} }}}}' would do"
    raise ValueError(f"prompt: expected a column in it, found none; {advice}")


def _expect_names(prompt: str, columns: Sequence[str]) -> None:
    """Raises ValueError for a column whose name is no word of Liquid: `{{ 0 }}` is the number, the same for every row."""
    for inside in re.findall(r"\{\{([^{}]*)\}\}", prompt):
        name = inside.split("|")[0].strip("- \t\n")
        if name in columns and not re.fullmatch(r"[^\W\d][\w-]*", name):
            raise ValueError(f"prompt: expected a column whose name is a word, found {name!r}; write {{{{ [{_quoted(name)}] }}}}")


def _quoted(name: str) -> str:
    return f'"{name}"' if "'" in name else f"'{name}'"


def one_agent(
    name: str,
    system: Optional[str],
    schema: Any,
    choice: Optional[Sequence[str]],
    regex: Optional[str],
    sampling: Optional[Mapping[str, Any]],
) -> Dict[str, Any]:
    given = {"persona": system, "schema": schema, "choice": list(choice) if choice is not None else None, "regex": regex}
    said = [key for key in ("schema", "choice", "regex") if given[key] is not None]
    if len(said) > 1:
        raise ValueError(f"expected one of schema, choice and regex, found {' and '.join(said)}")
    return {"key": name, "sampling": dict(sampling or {}), **{k: v for k, v in given.items() if v is not None}}


def agent_file(agent: Agent) -> Dict[str, Any]:
    """An agent of docs/agents.md, with what can be left out; its schema may be a model of pydantic."""
    if "key" not in agent:
        raise ValueError(f"agents: expected a key for every agent, found none in {str(dict(agent))[:80]}")
    key = str(agent["key"])
    names = {"short": key.replace("_", "")[:30], "display": key.replace("_", " ").capitalize()}
    file = {**names, "role": "agent", **agent, "sampling": {**USUAL, **agent.get("sampling", {})}}
    if file.get("schema") is not None:
        file["schema"] = schema_of(file["schema"])
    return file


def write_task(
    folder: Path,
    *,
    label: str,
    prompt: Optional[Prompt],
    agents: Union[str, os.PathLike, Sequence[Agent]],
    decision: bool,
    id_column: Optional[str],
    options: Mapping[str, Any],
) -> Path:
    """Writes all of it into `folder`; returns the path of the pipeline file."""
    ingest: Dict[str, Any] = {"format": "ndjson", "id": id_column or ID}
    if callable(prompt):
        ingest["prompt"] = PROMPT
    elif prompt is not None:
        (folder / "prompt.liquid").write_text(prompt, "utf-8")
        ingest["template"] = "prompt.liquid"
    named = _agents(folder, agents)
    chain = {"agents": named, "decision": decision, **_options(options)}
    verify = {"agents": named, "decision": decision}
    pipeline = {"input": "-", "stages": [{"ingest": ingest}, {"chain": chain}, {"verify": verify}], "output": "-"}
    path = folder / f"{label}.yaml"
    path.write_text(_json(pipeline), "utf-8")
    return path


def _agents(folder: Path, agents: Union[str, os.PathLike, Sequence[Agent]]) -> str:
    if isinstance(agents, (str, os.PathLike)):
        return str(Path(agents).resolve())
    files: List[Dict[str, Any]] = [agent_file(agent) for agent in agents]
    if not files:
        raise ValueError("agents: expected one at least, found none")
    made = folder / "agents"
    made.mkdir()
    for file in files:
        name = str(file["key"])
        if not re.fullmatch(r"[a-z][a-z0-9_]{0,59}", name):
            raise ValueError(f"expected a key of small letters, digits and _, found {name!r}")
        (made / f"{name}.yaml").write_text(_json(file), "utf-8")
    order = [file["key"] for file in files if file["role"] == "agent"]
    (made / "orderings.yaml").write_text(_json({"default": [order]}), "utf-8")
    return str(made)


def _options(options: Mapping[str, Any]) -> Dict[str, Any]:
    for name in options:
        if name in SAMPLING:
            raise TypeError(f"{name}: expected it in sampling, as sampling={{'{name}': …}}")
        if name == "retry_failed":  # which takes items that have failed, and rows are none
            raise TypeError("retry_failed: expected more attempts, such as attempts=6, which ask failed rows again")
    return {name.replace("_", "-"): value for name, value in options.items() if value is not None}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1)


def flags(options: Mapping[str, Any]) -> List[str]:
    """Options as the command line has them: in_flight=8 is --in-flight 8."""
    made: List[str] = []
    for name, value in _options(options).items():
        if isinstance(value, bool):
            made.append(f"--{name}" if value else f"--no-{name}")
        else:
            for each in value if isinstance(value, (list, tuple)) else [value]:
                made += [f"--{name}", str(each)]
    return made
