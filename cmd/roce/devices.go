package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/trace/learn"
)

func devicesCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "devices",
		Short: "List the devices of this machine, which of them work, and what the others lack",
		Example: `  roce devices
  roce devices --json`,
		Args: operands(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			all, err := listDevices()
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(c.OutOrStdout(), all)
			}
			return printDevices(c.OutOrStdout(), all)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// listed is a device as the list shows it.
type listed struct {
	Name      string `json:"device"`
	Interface string `json:"interface"`
	GID       string `json:"gid"`
	GUID      string `json:"node_guid,omitempty"`
	MTU       int    `json:"active_mtu"`
	NetMTU    int    `json:"interface_mtu"`
	Works     bool   `json:"works"`
	Missing   string `json:"missing,omitempty"`
}

// listDevices asks what there is. Only UDP sockets and devices of the kernel are opened, for a
// moment, to know the GUID: an AF_XDP port would put a program on the interface, which interrupts
// the traffic of some.
func listDevices() ([]listed, error) {
	infos, err := roce.Devices()
	if err != nil {
		return nil, err
	}
	all := make([]listed, 0, len(infos))
	guids := map[roce.GID]string{} // of software devices: the same on each kind of port
	for _, i := range infos {
		guid := guids[i.GID]
		if own := ofKernel(i.Name); i.Err == nil && (own || guid == "" && harmless(i.Name)) {
			if guid, i.Err = peekGUID(i.Name); !own {
				guids[i.GID] = guid
			}
		}
		l := listed{
			Name:      i.Name,
			Interface: i.Interface,
			GUID:      guid,
			MTU:       i.MTU.Bytes(),
			NetMTU:    i.NetMTU,
			Works:     i.Err == nil,
		}
		if !i.GID.IsZero() {
			l.GID = i.GID.String()
		}
		if !l.Works {
			l.Missing = strings.TrimPrefix(i.Err.Error(), "transport: open "+i.Name+": ")
		}
		all = append(all, l)
	}
	return all, nil
}

// harmless says whether a device can be opened without a trace.
func harmless(name string) bool { return strings.HasPrefix(name, "udp:") || ofKernel(name) }

// ofKernel says whether a device is one of the kernel's, by way of libibverbs.
func ofKernel(name string) bool { return strings.HasPrefix(name, "verbs:") }

func peekGUID(name string) (string, error) {
	d, err := roce.Open(name, &roce.Config{NoBackground: true})
	if err != nil {
		return "", err
	}
	defer d.Close()
	return fmt.Sprintf("%016x", d.Query().NodeGUID), nil
}

// printDevices prints a table, and below it what those lack that do not work.
func printDevices(w io.Writer, all []listed) error {
	t := tabwriter.NewWriter(w, 0, 8, 3, ' ', 0)
	fmt.Fprintln(t, "    device\tinterface\tMTU\tnode GUID\tstatus")
	fmt.Fprintln(t, "    ------\t---------\t---\t----------------\t------")
	for _, l := range all {
		status := "works"
		if !l.Works {
			status = "does not work"
		}
		fmt.Fprintf(t, "    %s\t%s\t%d\t%s\t%s\n", l.Name, l.Interface, l.MTU, l.GUID, status)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	var reasons []string
	names := map[string]string{} // of devices, by what they lack
	for _, l := range all {
		switch {
		case l.Works:
		case names[l.Missing] == "":
			reasons, names[l.Missing] = append(reasons, l.Missing), l.Name
		default:
			names[l.Missing] += ", " + l.Name
		}
	}
	for _, why := range reasons {
		if _, err := fmt.Fprintf(w, "\n%s:\n    %s\n", names[why], strings.ReplaceAll(learn.Wrap(why, 96), "\n",
			"\n    ")); err != nil {
			return err
		}
	}
	return nil
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
