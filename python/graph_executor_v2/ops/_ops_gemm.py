from .. import _core

globals().update({name: getattr(_core, name) for name in dir(_core) if not name.startswith("_")})
