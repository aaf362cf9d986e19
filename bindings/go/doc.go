// Package sinter fuses chains of GPU operators into few kernels on NVIDIA Hopper, at run time, through libsinter: describe a
// chain with a Builder or parse one, Open a Context, Prepare a Plan, Bind it to buffers, Launch. Ownership, units and errors
// are those of sinter/sinter.h.
//
// CGO_CFLAGS and CGO_LDFLAGS name the folders of the header and the library.
package sinter
