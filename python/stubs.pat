# What stub generation cannot see, or should not: values that change with every build, and private functions that the
# package's Python files call.
_core\.__prefix__$:
    __version__: str
    build_id: str
    with_cuda: bool

_core\.(build_id|with_cuda)$:

_core\.__suffix__$:
    def _set_site_packages(folders: Sequence[str]) -> None: ...
    def _library_report() -> list[tuple[str, str, str, str, str]]: ...
