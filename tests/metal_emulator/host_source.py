"""From Metal source to C++ for the CPU: the kernels as they are, and a launcher for each instance."""

from tests.metal_emulator.kernel_signature import (
    BUILTINS,
    THREADGROUP_VARIABLE,
    Instance,
    Kernel,
    Parameter,
    instances,
    kernels,
    without_comments,
    without_instances,
)

SOURCE_NAME = "kernels.metal"  # in messages; line numbers are those of the source


def host_source(source: str) -> str:
    by_name = {kernel.name: kernel for kernel in kernels(source)}
    launchers = [_launcher(by_name[i.function], i) for i in instances(source)]
    text = with_threadgroup_macros(source)
    return "\n".join([f'#line 1 "{SOURCE_NAME}"', text, '#line 1 "launchers"', *launchers, ""])


def with_threadgroup_macros(source: str) -> str:
    """`threadgroup T x[n];` at the top of a kernel becomes a macro; instances go."""
    text = without_comments(source)
    for kernel in reversed(kernels(source)):
        start, end = kernel.body
        body = THREADGROUP_VARIABLE.sub(r"EMULATOR_THREADGROUP(\2, \3, \1);", text[start:end])
        text = text[:start] + body + text[end:]
    return without_instances(text)


def _launcher(kernel: Kernel, instance: Instance) -> str:
    types = dict(zip(kernel.template_parameters, instance.template_arguments, strict=True))
    arguments = ", ".join(_argument(p, types) for p in kernel.parameters)
    return f"""
extern "C" int launch_{instance.host_name}(
    const EmulatorDispatch* dispatch, const EmulatorBuffer* given, int count) {{
  return emulator_dispatch(dispatch, given, count, [](void** buffers) {{
    const EmulatorThread* t = emulator_thread();
    {instance.call}({arguments});
  }});
}}"""


def _argument(parameter: Parameter, types: dict[str, str]) -> str:
    name = types.get(parameter.type, parameter.type)
    if parameter.attribute == "buffer":
        pointer = f"static_cast<{name}*>(buffers[{parameter.buffer}])"
        return f"*{pointer}" if parameter.indirection == "&" else pointer
    field = BUILTINS[parameter.attribute]
    if field in ("index", "lane", "simdgroup"):
        return f"{name}(t->{field})"
    return f"emulator_position<{name}>(t->{field})"
