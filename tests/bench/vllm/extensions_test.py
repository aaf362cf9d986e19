#!/usr/bin/env python3
"""What extensions.py leaves of a CUDA extension: an ELF file of a few containers, made here."""

import struct
import unittest
import unittest.mock

import extensions


def element(kind, arch, image):
    """An element with an image that is not packed."""
    head = struct.pack("<HHIQIIHHIIIQQQ", kind, 0x0101, 64, len(image), 0, 64, 0, 1, arch, 0, 0, 0x11, 0, 0)
    return head + image


def container(*elements):
    body = b"".join(elements)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


def elf(content):
    """An ELF file with a section .nv_fatbin, whose strings follow it."""
    names = b"\0.nv_fatbin\0.shstrtab\0"
    table = 64 + len(content) + len(names)
    headers = [bytes(64)]
    for name, offset, size in ((1, 64, len(content)), (12, 64 + len(content), len(names))):
        headers.append(struct.pack("<IIQQQQIIQQ", name, 1, 0, 0, offset, size, 0, 0, 1, 0))
    start = bytearray(64)
    start[:4] = b"\x7fELF"
    struct.pack_into("<Q", start, 0x28, table)
    struct.pack_into("<HH", start, 0x3C, 3, 2)
    return bytes(start) + content + names + b"".join(headers)


def images(data):
    """The kinds, architectures and images of each container."""
    return [[(one.kind, one.arch, one.image) for one in elements] for *_, elements in extensions.containers(data)]


class Cut(unittest.TestCase):
    def setUp(self):
        hopper, other = element(2, 90, b"kernel_a" * 4), element(2, 80, b"kernel_a" * 8)
        self.data = elf(
            container(other, hopper)
            + container(element(2, 75, b"small..."), element(2, 120, b"kernel_b" * 2))
            + container(element(2, 90, b"kernel_c" * 2), element(2, 90, b"kernel_c" * 3))
            + container(element(1, 80, b"kernel_d" * 9), element(2, 80, b"kernel_d" * 4))
        )

    def test_keeps_code_of_the_architecture(self):
        made = extensions.cut(self.data, 90)
        self.assertEqual(len(made), len(self.data))
        first, second, third, fourth = images(made)
        self.assertEqual(first, [(2, 90, b"kernel_a" * 4)])
        self.assertEqual(second, [(2, 75, b"small...")])  # no code for the GPU, as before
        self.assertEqual(third, [(2, 90, b"kernel_c" * 2), (2, 90, b"kernel_c" * 3)])
        self.assertEqual(fourth, [(2, 75, b"small...")])

    def test_containers_stay_where_they_are(self):
        def offsets(data):
            return [one[0] for one in extensions.containers(data)]

        self.assertEqual(offsets(extensions.cut(self.data, 90)), offsets(self.data))

    def test_drops_what_a_pattern_finds(self):
        first, _, third, _ = images(extensions.cut(self.data, 90, drop=("kernel_[c]",)))
        self.assertEqual(first, [(2, 90, b"kernel_a" * 4)])
        self.assertEqual(third, [(2, 75, b"small...")])

    def test_keeps_ptx_without_an_assembler(self):
        with unittest.mock.patch("shutil.which", return_value=None):
            made = images(extensions.cut(self.data, 90, assemble=("kernel_d",)))
        self.assertEqual(made[3], [(1, 80, b"kernel_d" * 9)])

    def test_assembles_ptx(self):
        code = element(2, 90, b"assembled")
        with unittest.mock.patch("shutil.which", return_value="ptxas"), unittest.mock.patch("extensions.assembled", return_value=code):
            made = images(extensions.cut(self.data, 90, assemble=("kernel_d",)))
        self.assertEqual(made[3], [(2, 90, b"assembled")])

    def test_refuses_code_without_room(self):
        code = element(2, 90, bytes(4096))
        with unittest.mock.patch("shutil.which", return_value="ptxas"), unittest.mock.patch("extensions.assembled", return_value=code):
            with self.assertRaisesRegex(ValueError, "has no room for"):
                extensions.cut(self.data, 90, assemble=("kernel_d",))

    def test_refuses_a_file_without_code(self):
        with self.assertRaisesRegex(ValueError, "no section .nv_fatbin"):
            extensions.cut(elf(b"").replace(b".nv_fatbin", b".nv_nothing"[:10]), 90)


if __name__ == "__main__":
    unittest.main()
