package podcidr

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
)

var (
	// ErrExhausted: every block overlaps something.
	ErrExhausted = errors.New("no range is left")
	// ErrMask: the cluster's ranges hold no block of that size.
	ErrMask = errors.New("mask size does not fit")
)

// Allocate returns the lowest block of the size in cluster, range by range in their order, that overlaps nothing of taken. IPv6 ranges are
// passed over.
func Allocate(cluster []netip.Prefix, maskSize int, taken ...netip.Prefix) (netip.Prefix, error) {
	sorted := slices.Clone(taken)
	slices.SortFunc(sorted, func(a, b netip.Prefix) int { return a.Masked().Addr().Compare(b.Masked().Addr()) })
	fits := false
	for _, c := range cluster {
		if !c.Addr().Is4() || maskSize < c.Bits() || maskSize > 30 {
			continue
		}
		fits = true
		if p, ok := lowest(c.Masked(), maskSize, sorted); ok {
			return p, nil
		}
	}
	if !fits {
		return netip.Prefix{}, fmt.Errorf("/%d in %v: %w", maskSize, cluster, ErrMask)
	}
	return netip.Prefix{}, fmt.Errorf("/%d in %v, %d taken: %w", maskSize, cluster, len(taken), ErrExhausted)
}

// lowest walks the blocks of c and the ranges that are taken, sorted by their first address, side by side: what ends before a block also ends
// before all later ones.
func lowest(c netip.Prefix, maskSize int, taken []netip.Prefix) (netip.Prefix, bool) {
	block, i := netip.PrefixFrom(c.Addr(), maskSize), 0
	for c.Contains(block.Addr()) {
		switch {
		case i == len(taken) || taken[i].Masked().Addr().Compare(last(block)) > 0:
			return block, true
		case !taken[i].Overlaps(block):
			i++
		default:
			next := last(block).Next()
			if end := last(taken[i]); end.Compare(last(block)) > 0 {
				next = last(netip.PrefixFrom(end, maskSize).Masked()).Next()
			}
			block = netip.PrefixFrom(next, maskSize)
		}
	}
	return netip.Prefix{}, false
}

// last is the last address of an IPv4 range; of another one its first.
func last(p netip.Prefix) netip.Addr {
	p = p.Masked()
	if !p.Addr().Is4() {
		return p.Addr()
	}
	b := p.Addr().As4()
	for i := p.Bits(); i < 32; i++ {
		b[i/8] |= 1 << (7 - i%8)
	}
	return netip.AddrFrom4(b)
}

// Grant is a range for one of our Nodes.
type Grant struct {
	Node, UID string
	Range     netip.Prefix
}

// hostMask is how much around a Node's own address is kept free: the API does not say how large its subnet is.
const hostMask = 24

// Grants returns the ranges to give to those of our Nodes that have none, and what stands in the way of giving one. nodes that e holds must be
// as the API server has them now, since a range that was given a moment ago must be among them.
func Grants(e Evidence) ([]Grant, Finding) {
	if !operatorGives(&e) {
		return nil, Finding{}
	}
	if f := e.allocating(); f != (Finding{}) {
		return nil, f
	}
	var out []Grant
	taken := e.taken()
	for i := range e.Nodes {
		n := &e.Nodes[i]
		if !n.Ours || len(n.Ranges) > 0 {
			continue
		}
		p, err := Allocate(e.Cluster, e.MaskSize, taken...)
		if err != nil {
			return out, e.noBlock(err)
		}
		taken = append(taken, p)
		out = append(out, Grant{Node: n.Name, UID: n.UID, Range: p})
	}
	return out, Finding{}
}

// taken is everything that a new range must not overlap.
func (e *Evidence) taken() []netip.Prefix {
	out := slices.Clone(e.Services)
	for i := range e.Overrides {
		out = append(out, e.Overrides[i].Ranges...)
	}
	for i := range e.Nodes {
		n := &e.Nodes[i]
		out = append(out, n.Ranges...)
		for _, a := range n.Pods {
			out = append(out, netip.PrefixFrom(a, a.BitLen()))
		}
		for _, a := range n.Addresses {
			if a.Is4() {
				out = append(out, netip.PrefixFrom(a, hostMask).Masked())
			}
		}
	}
	return out
}
