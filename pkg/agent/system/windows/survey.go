package windows

import (
	"encoding/binary"
	"slices"

	"github.com/windowsmachine/operator/pkg/plan"
)

// Bounds on what is taken of a machine for Machine.Survey: rows of the table of listening ports, adapters that are teams.
const (
	maxListeners = 65_536
	maxTeams     = 64
)

// portTable is where a row of GetExtendedTcpTable's answer for class TCP_TABLE_OWNER_PID_LISTENER has its local port (tcpmib.h:
// MIB_TCPROW_OWNER_PID, MIB_TCP6ROW_OWNER_PID), in bytes.
type portTable struct{ row, port int }

func tcp4Table() portTable { return portTable{row: 24, port: 8} }

func tcp6Table() portTable { return portTable{row: 56, port: 20} }

// ports reads the local ports: a count of rows in the machine's byte order, then the rows, a port being the first two bytes of its field in
// network order. A table that is cut short gives the rows that are whole.
func (t portTable) ports(table []byte) []int {
	if len(table) < 4 {
		return nil
	}
	var out []int
	rest := table[4:]
	for range min(binary.LittleEndian.Uint32(table), maxListeners) {
		if len(rest) < t.row {
			break
		}
		out = append(out, int(binary.BigEndian.Uint16(rest[t.port:])))
		rest = rest[t.row:]
	}
	return out
}

// distinct sorts and drops what is there twice.
func distinct(ports []int) []int {
	slices.Sort(ports)
	return slices.Compact(ports)
}

// dynamicRange is the range of one protocol; ok is false for numbers that are none.
func dynamicRange(protocol string, first, count int) (plan.PortRange, bool) {
	return plan.PortRange{Protocol: protocol, First: first, Count: count}, first > 0 && count > 0 && first+count <= 65_536
}
