"""Objects that describe memory as torch, CuPy and others do, made with ctypes: on any device, without one."""

from __future__ import annotations

import ctypes
from typing import Any

CPU, CUDA, CUDA_HOST, ROCM, CUDA_MANAGED = 1, 2, 3, 10, 13
INT, UINT, FLOAT, BFLOAT, COMPLEX, BOOL = 0, 1, 2, 4, 5, 6
READ_ONLY, COPIED = 1, 2


class _Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("index", ctypes.c_int32)]


class _DataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("rank", ctypes.c_int32),
        ("dtype", _DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _Version(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32)]


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Managed(ctypes.Structure):
    _fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", _Deleter)]


class _ManagedVersioned(ctypes.Structure):
    _fields_ = [
        ("version", _Version),
        ("context", ctypes.c_void_p),
        ("deleter", _Deleter),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    ]


_ToManaged = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(ctypes.c_void_p))
_ToTensor = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(_Tensor))


class _Api(ctypes.Structure):
    _fields_ = [
        ("version", _Version),
        ("previous", ctypes.c_void_p),
        ("allocate", ctypes.c_void_p),
        ("managed_from_object", _ToManaged),
        ("managed_to_object", ctypes.c_void_p),
        ("tensor_from_object", _ToTensor),
        ("current_stream", ctypes.c_void_p),
    ]


_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype = ctypes.c_void_p
_pointer_of.argtypes = [ctypes.c_void_p, ctypes.c_char_p]

_exports: dict[int, Any] = {}  # by the address of the managed tensor, until its deleter is called


@_Deleter
def _delete(managed: int) -> None:
    del _exports[managed]


@ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
def _free_unused(capsule: int) -> None:
    for name in (b"dltensor", b"dltensor_versioned"):
        if _is_valid(capsule, name):
            _delete(_pointer_of(capsule, name))


def live_exports() -> int:
    """How many DLPack tensors were made here and not freed yet."""
    return len(_exports)


def capsule(address: int, name: bytes = b"anything") -> Any:
    """A PyCapsule around an address."""
    return _new_capsule(address, name, None)


class Described:
    """Memory at `data`, described and nothing more. Strides in elements; None: compact."""

    def __init__(
        self,
        data: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...] | None = None,
        device: tuple[int, int] = (CUDA, 0),
        dtype: tuple[int, int] = (FLOAT, 32),
        flags: int = 0,
        byte_offset: int = 0,
        lanes: int = 1,
    ) -> None:
        self.data, self.shape, self.strides, self.device = data, shape, strides, device
        self.dtype, self.flags, self.byte_offset, self.lanes = dtype, flags, byte_offset, lanes
        rank = len(shape)
        self._shape = (ctypes.c_int64 * rank)(*shape)
        self._strides = None if strides is None else (ctypes.c_int64 * rank)(*strides)

    def fill(self, tensor: _Tensor) -> None:
        tensor.data = self.data or None
        tensor.device = _Device(*self.device)
        tensor.rank = len(self.shape)
        tensor.dtype = _DataType(*self.dtype, self.lanes)
        tensor.shape = self._shape
        tensor.strides = None if self._strides is None else self._strides  # type: ignore[assignment]
        tensor.byte_offset = self.byte_offset

    def managed(self, versioned: bool, major: int = 1) -> int:
        made: Any = _ManagedVersioned() if versioned else _Managed()
        if versioned:
            made.version, made.flags = _Version(major, 0), self.flags
        made.deleter = _delete
        self.fill(made.tensor)
        address = ctypes.addressof(made)
        _exports[address] = (made, self)
        return address


class DLPack(Described):
    """Offers __dlpack__ as DLPack 1.0 describes it and remembers what it was asked."""

    major = 1
    versioned = True

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, **asked: Any) -> Any:
        self.asked = asked
        name = b"dltensor_versioned" if self.versioned else b"dltensor"
        return _new_capsule(
            self.managed(self.versioned, self.major), name, ctypes.cast(_free_unused, ctypes.c_void_p)
        )


class OldDLPack(DLPack):
    """As before DLPack 1.0: no max_version, unversioned capsules."""

    versioned = False

    def __dlpack__(self, stream: Any = None) -> Any:
        return super().__dlpack__(stream=stream)


class CudaArray:
    """Offers __cuda_array_interface__; what is given here replaces its entries."""

    def __init__(self, **entries: Any) -> None:
        self._entries = entries

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        said = {"shape": (2, 3), "typestr": "<f4", "data": (0x1000, False), "version": 3, "strides": None}
        said.update(self._entries)
        return {key: value for key, value in said.items() if value is not ...}


@_ToManaged
def _managed_from_object(item: Any, out: Any) -> int:
    if item.fails:
        return -1
    item.managed_calls += 1
    out[0] = item.managed(True)
    return 0


@_ToTensor
def _tensor_from_object(item: Any, out: Any) -> int:
    if item.fails:
        return -1
    item.tensor_calls += 1
    item.fill(out[0])
    return 0


def exchange_class(
    major: int = 1,
    quick: bool = True,
    previous: type | None = None,
    base: type = Described,
    raises: bool = False,
) -> Any:
    """A class with DLPack's table of C functions, as torch.Tensor has it. `raises`: each raises TypeError."""
    api = _Api()
    api.version = _Version(major, 3)
    api.managed_from_object = _managed_from_object
    if quick:
        api.tensor_from_object = _tensor_from_object
    if raises:  # a C function that takes these arguments and refuses an object without a buffer
        refusing = ctypes.cast(ctypes.pythonapi.PyObject_GetBuffer, ctypes.c_void_p).value
        api.managed_from_object, api.tensor_from_object = _ToManaged(refusing), _ToTensor(refusing)
    if previous is not None:
        api.previous = ctypes.addressof(previous._api)  # type: ignore[attr-defined]
    members = {
        "_api": api,
        "__dlpack_c_exchange_api__": capsule(ctypes.addressof(api), b"dlpack_exchange_api"),
        "fails": False,
        "managed_calls": 0,
        "tensor_calls": 0,
    }
    return type("Exchanged", (base,), members)
