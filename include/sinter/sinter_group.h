/* Groups of GPUs of one host, over which a chain is split: who belongs together, and the memory in
 * which their kernels exchange data. sinter.h states the conventions.
 *
 * A chain says that it is split by its sums and gathers over ranks (sinter_chain_add_all_reduce,
 * sinter_chain_add_all_gather, sinter_chain_add_reduce_scatter). All ranks prepare the same chain
 * with inputs of their own, and bind its plan to the group by sinter_plan_bind_group; what they
 * launch is then the same on all ranks, in the same order.
 *
 * One rank is one GPU. Ranks are processes, or contexts of one process. NVLink multicast is not
 * used. What travels between ranks is compared on both sides. A kernel's wait ends after the
 * timeout: a rank that died, was stopped or never came ends the group on all others that wait, and
 * sinter_group_get_status says which one was missed. With SINTER_GROUP_NO_TIMEOUT waits end only by
 * sinter_group_abort.
 *
 * A kernel of a sum or a gather fills the GPU with blocks that wait for those of other ranks, as
 * NCCL's kernels do. Two such kernels of different groups, or one and one of NCCL's, must not run
 * on a GPU at the same time: order them by a stream or events, alike on all ranks. Else each may
 * hold the blocks for which the other waits, until the timeout. */
#ifndef SINTER_SINTER_GROUP_H_
#define SINTER_SINTER_GROUP_H_

#include "sinter/sinter_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* This rank's part in a group. It keeps no context: the GPU's driver state is its own reference. */
typedef struct sinter_group sinter_group;

/* An all-gather of the caller, such as over MPI, sockets or a store: every rank gives `bytes` bytes
 * at `send`, the same number on all; once it returns, `recv` holds those of all ranks in the order
 * of ranks, `bytes` each. SINTER_OK, or the status with which the call fails; it must end by itself
 * when a rank does not come. Called only inside sinter_group_create, sinter_plan_bind_group and
 * sinter_group_close, on their threads; after it failed it is not called again for the group. */
typedef sinter_status (*sinter_exchange)(uintptr_t user_data, const void* send, size_t bytes,
                                         void* recv);

/* SINTER_GROUP_NO_TIMEOUT: waits for a missing rank end only when the group is aborted.
 * SINTER_GROUP_DESCRIPTORS: what the library allocates is shared by POSIX file descriptors, which
 * ranks send one another through UNIX sockets without a file, and not by cuIpc handles: where
 * processes have one network namespace but no IPC namespace in common. All ranks give it, or none;
 * not with peers, and without a meaning in sinter_group_create_local. */
enum { SINTER_GROUP_NO_TIMEOUT = 1, SINTER_GROUP_DESCRIPTORS = 2 };
typedef struct sinter_group_options {
  uint32_t struct_size;
  uint32_t flags;      /* SINTER_GROUP_* */
  int32_t rank;        /* 0 to size - 1; of sinter_group_create_local 0 */
  int32_t size;        /* ranks, 2 to 8; of sinter_group_create_local 0 */
  uint64_t slot_bytes; /* the largest message of one kernel; a multiple of 4096, 64 KiB to 4 GiB. 0:
                          64 MiB for 2 ranks, 4 MiB for 3 and 4, 2 MiB for more. Longer results are
                          sent by several kernels */
  /* The caller's symmetric memory: `size` addresses, in the order of ranks, of each rank's buffer
   * as this GPU addresses it, 256-byte aligned, of sinter_group_get_room_bytes bytes or more. It is
   * the caller's and outlives the group and every launch. NULL: the library allocates, and shares
   * by cuIpc handles, which the exchange carries, or file descriptors (flags). All ranks give
   * peers, or none. NULL in sinter_group_create_local. */
  const sinter_device_ptr* peers;
  uint64_t bytes;           /* of each of them */
  sinter_exchange exchange; /* needed; unused by sinter_group_create_local */
  uintptr_t user_data;      /* of the exchange: both live until the group is closed or released */
  uint32_t timeout_ms; /* how long a kernel waits for another rank; 0: 10000. Time between launches
                          of two ranks counts, such as that of loading a model */
  uint32_t reserved;   /* 0 */
} sinter_group_options;

/* Bytes of a rank's room: 4096 + 2 * size * slot_bytes; 0 for a size or slot_bytes outside the
 * limits of sinter_group_options. `slot_bytes` 0: the default. Thread-safe. Since 0.1. */
SINTER_API uint64_t sinter_group_get_room_bytes(int32_t size, uint64_t slot_bytes);

/* Collective: all ranks call it, and where one fails all do: the others say which one and why. Not
 * told to the others is an error in options' struct_size, flags or size, a NULL exchange or
 * options, and an exchange that fails: their exchange then ends by itself. It compares versions of
 * the library, GPU models and options of all ranks, maps their memory, and proves that a pattern
 * written over each link arrives. SINTER_INVALID_ARGUMENT: an option. SINTER_FAILED_PRECONDITION:
 * ranks that differ, two with one GPU, a link that does not carry data; it names the rank.
 * SINTER_UNAVAILABLE: no GPU. SINTER_RESOURCE_EXHAUSTED, SINTER_ERROR_DRIVER. Waits as long as the
 * exchange does. Thread-safe. Since 0.1. */
SINTER_API sinter_status sinter_group_create(sinter_context* context,
                                             const sinter_group_options* options,
                                             sinter_group** out_group, sinter_error** error);

/* A group whose ranks are GPUs of this process: rank i runs on contexts[i]. `out_groups` has
 * `size` places. Load every rank's plan before the first launch: a load may wait for a kernel that
 * waits for the other rank. Errors are sinter_group_create's. Thread-safe. Since 0.1. */
SINTER_API sinter_status sinter_group_create_local(sinter_context* const* contexts, uint32_t size,
                                                   const sinter_group_options* options,
                                                   sinter_group** out_groups, sinter_error** error);

/* The last release closes the other ranks' memory and frees this rank's, which may not be while
 * others write it or another process has it open. Where ranks are processes, call
 * sinter_group_close first, on every rank; a release without it is defined only once the other
 * ranks' processes have ended. With the caller's `peers`, and with ranks of one process, release
 * after all ranks have synchronised; ranks of one process share their memory, which the last of
 * them frees. Thread-safe. Since 0.1. */
SINTER_API void sinter_group_retain(const sinter_group* group);
SINTER_API void sinter_group_release(const sinter_group* group);

/* SINTER_OK while the group lives. Else why it ended, and the rank that is meant in `*out_rank`,
 * which may be NULL: SINTER_DEADLINE_EXCEEDED, the rank was missed; SINTER_FAILED_PRECONDITION, it
 * launched another plan or another number of rows; SINTER_ABORTED, it aborted. `*out_rank` is
 * written always, -1 where none is meant. What launches wrote since then is undefined; later
 * launches do nothing; make another group. It never blocks: after a synchronisation it covers
 * all launches before. Thread-safe. Since 0.1. */
SINTER_API sinter_status sinter_group_get_status(const sinter_group* group, int32_t* out_rank,
                                                 sinter_error** error);

/* As sinter_plan_bind, of a plan whose chain is split over ranks, which sinter_plan_bind refuses.
 * The binding keeps the group. The first time that the group meets the plan the call is collective,
 * by one exchange that compares the plan on all ranks: ranks bind their plans in one order. Binding
 * it again, to other buffers, exchanges nothing. Contexts of one process do not wait for one
 * another. SINTER_FAILED_PRECONDITION: ranks have different plans (another chain, bucket of M,
 * option or tuning set), the group has another number of ranks than the chain, is closed, or its
 * slots are too small. After ranks had different plans, processes may bind again, all of them: the
 * plans are compared again. Groups of sinter_group_create_local must be made again, because the
 * first rank's plan stands. SINTER_INVALID_ARGUMENT: buffer_count or a buffer, as in
 * sinter_plan_bind; a plan of another GPU than this rank's; a chain that is split over no ranks.
 * These are found after the exchange, so no rank waits; the other ranks are bound, and not
 * notified. Before the exchange only a NULL plan, group or out_binding is found.
 *
 * sinter_binding_launch and nodes of graphs then refuse a group that has ended, with the status of
 * sinter_group_get_status, or is closed. All ranks launch with the same M: another one of the same
 * bucket is found by the launch, which ends the group. A launch of more rows than slots hold is
 * made in several passes, but where ranks have parts of the rows: then slots hold the message of
 * all rows of the plan's bucket, or the bind asks for larger ones. Such plans are chosen by
 * prediction, not measured. Thread-safe. Since 0.1. */
SINTER_API sinter_status sinter_plan_bind_group(const sinter_plan* plan, uint32_t buffer_count,
                                                const sinter_device_ptr* buffers,
                                                sinter_device_ptr workspace,
                                                const sinter_group* group,
                                                sinter_binding** out_binding, sinter_error** error);

/* Ends the group on all ranks: waits return soon, later launches do nothing. Thread-safe.
 * Since 0.1. */
SINTER_API sinter_status sinter_group_abort(const sinter_group* group, sinter_error** error);

/* Collective: every rank calls it once its launches have been synchronised. It closes the other
 * ranks' memory, waits by one exchange until all ranks have done so, and frees this rank's. Nothing
 * may be launched over the group afterwards; its status can be asked, and it is still released.
 * SINTER_OK at once where the group is closed already. Where the exchange fails, its status, also
 * of later calls: the rank's memory then stays until the last release. A group of
 * sinter_group_create_local makes no exchange, and its memory goes once every rank has closed or
 * released. Thread-safe. Since 0.1. */
SINTER_API sinter_status sinter_group_close(const sinter_group* group, sinter_error** error);

#ifdef __cplusplus
}
#endif

#endif /* SINTER_SINTER_GROUP_H_ */
