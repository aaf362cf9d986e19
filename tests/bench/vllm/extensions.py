"""Cuts a CUDA extension to the machine code of one architecture.

An extension's section .nv_fatbin is a row of containers, one for each source file that was compiled. A container holds an element for each
architecture: machine code or PTX. Containers stay where they are; elements that are not wanted are overwritten with zeros, which compress
to nothing. A container of which nothing is wanted gets the extension's smallest machine code of another architecture, so that the CUDA runtime
finds what it finds today in a container without code for its GPU: no kernel image, when a kernel of it is launched and not before.
"""

import os
import re
import shutil
import struct
import subprocess
import tempfile

_CONTAINER, _PTX, _CODE = 0xBA55ED50, 1, 2


class Element:
    """An image in a container: PTX or machine code of one architecture."""

    def __init__(self, data, offset):
        self.kind, _, head, size, self.packed, _, _, _, self.arch = struct.unpack_from("<HHIQIIHHI", data, offset)
        self.flags, _, self.unpacked = struct.unpack_from("<QQQ", data, offset + 40)
        self.size = head + size
        self.bytes = data[offset : offset + self.size]
        self.image = self.bytes[head:]

    def text(self):
        """The image, unpacked."""
        if not self.flags & 0x8000:
            return self.image
        import zstandard

        return zstandard.ZstdDecompressor().decompress(self.image[: self.packed], max_output_size=self.unpacked)


def _section(data, wanted):
    """Offset and size of an ELF section."""
    table = struct.unpack_from("<Q", data, 0x28)[0]
    count, strings = struct.unpack_from("<HH", data, 0x3C)
    headers = [struct.unpack_from("<IIQQQQ", data, table + 64 * i) for i in range(count)]
    for name, _, _, _, offset, size in headers:
        begin = headers[strings][4] + name
        if data[begin : data.index(b"\0", begin)] == wanted:
            return offset, size
    raise ValueError(f"no section {wanted.decode()}: not a CUDA extension")


def containers(data):
    """Yields for each container its offset, the size of its head, the size of its content, and its elements."""
    offset, size = _section(data, b".nv_fatbin")
    end = offset + size
    while offset + 16 <= end:
        magic, _, head, content = struct.unpack_from("<IHHQ", data, offset)
        if magic != _CONTAINER:
            offset += 8  # padding
            continue
        elements, at = [], offset + head
        while at < offset + head + content:
            elements.append(Element(data, at))
            at += elements[-1].size
        yield offset, head, content, elements
        offset += head + content


def cut(data, arch, drop=(), assemble=()):
    """An extension with machine code for `arch` only.

    Args:
        drop: patterns. Containers whose code names a kernel that one of them finds are emptied.
        assemble: patterns. Containers that have only PTX for the architecture, and name such a kernel, are assembled to machine code, which the
            driver would do for minutes when the first of their kernels is launched. Without ptxas on PATH they keep their PTX.
    """
    found = list(containers(data))
    others = [one for *_, elements in found for one in elements if one.kind == _CODE and one.arch != arch]
    nothing = min(others, key=lambda one: one.size).bytes if others else b""
    made = bytearray(data)
    for offset, head, content, elements in found:
        code = [one for one in elements if one.kind == _CODE and one.arch == arch]
        if code:
            body = nothing if _names(code[-1], drop) else b"".join(one.bytes for one in code)
        else:
            ptx = [one for one in elements if one.kind == _PTX and one.arch <= arch]
            wanted = ptx and _names(ptx[-1], assemble)
            body = (assembled(ptx[-1], arch) if shutil.which("ptxas") else ptx[-1].bytes) if wanted else nothing
        if len(body) > content:
            raise ValueError(f"a container of {content} bytes has no room for {len(body)}")
        made[offset + head : offset + head + content] = body + bytes(content - len(body))
        struct.pack_into("<Q", made, offset + 8, len(body))
    return bytes(made)


def _names(element, patterns):
    return bool(patterns) and re.search("|".join(patterns).encode(), element.text()) is not None


def assembled(element, arch):
    """An element of machine code made from one of PTX."""
    with tempfile.TemporaryDirectory() as folder:
        ptx, code, packed = (os.path.join(folder, name) for name in ("in.ptx", "out.cubin", "out.fatbin"))
        with open(ptx, "wb") as file:
            file.write(element.text().rstrip(b"\0"))
        subprocess.run(["ptxas", f"-arch=sm_{arch}", "-o", code, ptx], check=True)
        subprocess.run(["fatbinary", "-64", "--compress-all", f"--create={packed}", f"--image3=kind=elf,sm={arch},file={code}"], check=True)
        with open(packed, "rb") as file:
            made = file.read()
    head = struct.unpack_from("<IHHQ", made, 0)[2]
    return made[head:]
