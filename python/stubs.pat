# What stub generation does not see, or should not write: values that change with every build.
_core\.__prefix__$:
    __version__: str
    build_id: str
    with_cuda: bool

_core\.(build_id|with_cuda)$:

