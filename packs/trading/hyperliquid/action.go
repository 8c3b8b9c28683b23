package hyperliquid

// action is an L1 action of the exchange. Its JSON and MessagePack members have the same order,
// which the signature depends on.
type action interface{ pack(p *packer) }

// orderAction places orders.
type orderAction struct {
	Type     string      `json:"type"` // "order"
	Orders   []orderWire `json:"orders"`
	Grouping string      `json:"grouping"`
}

// Groupings in an orderAction: independent orders, or an entry followed by its stops.
const (
	groupNone = "na"
	groupTPSL = "normalTpsl"
)

type orderWire struct {
	Asset      int       `json:"a"`
	Buy        bool      `json:"b"`
	Price      string    `json:"p"`
	Size       string    `json:"s"`
	ReduceOnly bool      `json:"r"`
	Type       orderType `json:"t"`
	Cloid      string    `json:"c,omitempty"`
}

// orderType has exactly one member.
type orderType struct {
	Limit   *limitWire   `json:"limit,omitempty"`
	Trigger *triggerWire `json:"trigger,omitempty"`
}

type limitWire struct {
	TIF string `json:"tif"`
}

type triggerWire struct {
	IsMarket  bool   `json:"isMarket"`
	TriggerPx string `json:"triggerPx"`
	TPSL      string `json:"tpsl"`
}

func (a orderAction) pack(p *packer) {
	p.mapOf(3)
	p.member("type", a.Type)
	p.text("orders")
	p.arrayOf(len(a.Orders))
	for i := range a.Orders {
		a.Orders[i].pack(p)
	}
	p.member("grouping", a.Grouping)
}

func (o *orderWire) pack(p *packer) {
	members := 6
	if o.Cloid != "" {
		members++
	}
	p.mapOf(members)
	p.text("a")
	p.uint(uint64(o.Asset)) //nolint:gosec // G115: asset ids are never negative
	p.text("b")
	p.bool(o.Buy)
	p.member("p", o.Price)
	p.member("s", o.Size)
	p.text("r")
	p.bool(o.ReduceOnly)
	p.text("t")
	p.mapOf(1)
	if t := o.Type.Trigger; t != nil {
		p.text("trigger")
		p.mapOf(3)
		p.text("isMarket")
		p.bool(t.IsMarket)
		p.member("triggerPx", t.TriggerPx)
		p.member("tpsl", t.TPSL)
	} else {
		p.text("limit")
		p.mapOf(1)
		p.member("tif", o.Type.Limit.TIF)
	}
	if o.Cloid != "" {
		p.member("c", o.Cloid)
	}
}

// cancelAction cancels orders by the ID that the venue assigned.
type cancelAction struct {
	Type    string       `json:"type"` // "cancel"
	Cancels []cancelWire `json:"cancels"`
}

type cancelWire struct {
	Asset int    `json:"a"`
	Order uint64 `json:"o"`
}

func (a cancelAction) pack(p *packer) {
	p.mapOf(2)
	p.member("type", a.Type)
	p.text("cancels")
	p.arrayOf(len(a.Cancels))
	for _, c := range a.Cancels {
		p.mapOf(2)
		p.text("a")
		p.uint(uint64(c.Asset)) //nolint:gosec // G115: asset ids are never negative
		p.text("o")
		p.uint(c.Order)
	}
}

// cancelByCloidAction cancels orders by the ID that the client assigned.
type cancelByCloidAction struct {
	Type    string              `json:"type"` // "cancelByCloid"
	Cancels []cancelByCloidWire `json:"cancels"`
}

type cancelByCloidWire struct {
	Asset int    `json:"asset"`
	Cloid string `json:"cloid"`
}

func (a cancelByCloidAction) pack(p *packer) {
	p.mapOf(2)
	p.member("type", a.Type)
	p.text("cancels")
	p.arrayOf(len(a.Cancels))
	for _, c := range a.Cancels {
		p.mapOf(2)
		p.text("asset")
		p.uint(uint64(c.Asset)) //nolint:gosec // G115: asset ids are never negative
		p.member("cloid", c.Cloid)
	}
}

// scheduleCancelAction cancels all orders at a given time or, if there is no time, removes the
// schedule.
type scheduleCancelAction struct {
	Type string `json:"type"` // "scheduleCancel"
	Time uint64 `json:"time,omitempty"`
}

func (a scheduleCancelAction) pack(p *packer) {
	if a.Time == 0 {
		p.mapOf(1)
		p.member("type", a.Type)
		return
	}
	p.mapOf(2)
	p.member("type", a.Type)
	p.text("time")
	p.uint(a.Time)
}
