package sinter

/*
#include "shim.h"
*/
import "C"

import "unsafe"

// GraphPDL is LaunchPDL after those dependencies of Binding.AddToGraph that are kernels.
const GraphPDL uint32 = C.SINTER_GRAPH_PDL

// Graph, GraphNode and GraphExec are the caller's CUgraph, CUgraphNode and CUgraphExec.
type (
	Graph     uintptr
	GraphNode uintptr
	GraphExec uintptr
)

// GraphNodes is what one AddToGraph made. It keeps the plan, not the graph.
type GraphNodes struct{ h *handle }

// AddToGraph adds to graph what Launch would enqueue, after dependencies, which are nodes of it. flags: GraphPDL. The
// buffers must stay allocated as long as something runs that was made from the graph.
func (b *Binding) AddToGraph(graph Graph, dependencies []GraphNode, m int64, flags uint32) (*GraphNodes, error) {
	binding, err := b.h.acquire()
	if err != nil {
		return nil, err
	}
	defer b.h.done()
	var nodes *C.sinter_graph_nodes
	result := C.sinter_go_add_to_graph(binding, C.uintptr_t(graph), C.uint32_t(len(dependencies)),
		first[GraphNode, C.uintptr_t](dependencies), symbols(m), C.int64_t(m), C.uint32_t(flags), &nodes)
	if err := outcome(result); err != nil {
		return nil, err
	}
	return &GraphNodes{newHandle("the nodes", unsafe.Pointer(nodes), func(p unsafe.Pointer) {
		C.sinter_graph_nodes_release((*C.sinter_graph_nodes)(p))
	})}, nil
}

// Close gives the nodes back; the graph keeps them.
func (n *GraphNodes) Close() { n.h.close() }

// Nodes are in the order in which they run; the last ends the plan. None once closed.
func (n *GraphNodes) Nodes() []GraphNode {
	p, err := n.h.acquire()
	if err != nil {
		return nil
	}
	defer n.h.done()
	nodes := make([]GraphNode, C.sinter_graph_nodes_get_count((*C.sinter_graph_nodes)(p)))
	for i := range nodes {
		nodes[i] = GraphNode(C.sinter_go_node(p, C.uint32_t(i)))
	}
	return nodes
}

// Update puts the buffers of binding, which is of the same plan, and m rows into an instance of the graph;
// FailedPrecondition if the graph must be rebuilt. Nothing launches the instance meanwhile.
func (n *GraphNodes) Update(exec GraphExec, binding *Binding, m int64) error {
	bound, err := binding.acquire()
	if err != nil {
		return err
	}
	defer binding.h.done()
	nodes, err := n.h.acquire()
	if err != nil {
		return err
	}
	defer n.h.done()
	return outcome(C.sinter_go_update_nodes(nodes, C.uintptr_t(exec), bound, symbols(m), C.int64_t(m)))
}
