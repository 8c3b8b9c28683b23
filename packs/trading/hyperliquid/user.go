package hyperliquid

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// userRequest is an Info request about a user.
type userRequest struct {
	Type string `json:"type"`
	User string `json:"user"`
}

type clearinghouseWire struct {
	MarginSummary struct {
		AccountValue    dec `json:"accountValue"`
		TotalMarginUsed dec `json:"totalMarginUsed"`
	} `json:"marginSummary"`
	AssetPositions []struct {
		Position positionWire `json:"position"`
	} `json:"assetPositions"`
	Time millis `json:"time"`
}

type positionWire struct {
	Coin          string `json:"coin"`
	Size          dec    `json:"szi"`
	EntryPx       *dec   `json:"entryPx"`
	PositionValue dec    `json:"positionValue"`
	UnrealizedPnl dec    `json:"unrealizedPnl"`
	LiquidationPx *dec   `json:"liquidationPx"`
	MarginUsed    dec    `json:"marginUsed"`
	Leverage      struct {
		Value int `json:"value"`
	} `json:"leverage"`
}

func (c *Client) clearinghouseState(ctx context.Context, user string) (clearinghouseWire, error) {
	var out clearinghouseWire
	err := c.info(ctx, "clearinghouseState", weightLight, userRequest{"clearinghouseState", user}, &out)
	if err == nil && len(out.AssetPositions) > maxAssets {
		err = unexpected("clearinghouseState", fmt.Errorf("%d positions", len(out.AssetPositions)))
	}
	return out, noNull("clearinghouseState", err)
}

// noNull converts a null response into an error where null is not allowed.
func noNull(kind string, err error) error {
	if errors.Is(err, errNull) {
		return unexpected(kind, err)
	}
	return err
}

// openOrderWire is an order in frontendOpenOrders and orderStatus.
type openOrderWire struct {
	Coin       string  `json:"coin"`
	Side       string  `json:"side"` // B buys, A sells
	LimitPx    dec     `json:"limitPx"`
	Size       dec     `json:"sz"` // size that is not filled yet
	OrigSize   dec     `json:"origSz"`
	ID         uint64  `json:"oid"`
	Time       millis  `json:"timestamp"`
	Cloid      *string `json:"cloid"`
	OrderType  string  `json:"orderType"`
	TIF        *string `json:"tif"`
	ReduceOnly bool    `json:"reduceOnly"`
	IsTrigger  bool    `json:"isTrigger"`
	TriggerPx  dec     `json:"triggerPx"`
}

func (c *Client) openOrders(ctx context.Context, user string) ([]openOrderWire, error) {
	var out []openOrderWire
	err := c.info(ctx, "frontendOpenOrders", weightDefault, userRequest{"frontendOpenOrders", user}, &out)
	if err == nil && len(out) > maxOrders*10 {
		err = unexpected("frontendOpenOrders", fmt.Errorf("%d orders", len(out)))
	}
	c.limiter.Charge(len(out) / itemsPerWeight)
	return out, noNull("frontendOpenOrders", err)
}

// statusWire is an order's state.
type statusWire struct {
	Order  openOrderWire `json:"order"`
	Status string        `json:"status"`
	At     millis        `json:"statusTimestamp"`
}

// orderStatus returns an order's state by its client order ID. It returns false if the venue has
// never received such an order.
func (c *Client) orderStatus(ctx context.Context, user, cloid string) (statusWire, bool, error) {
	request := struct {
		userRequest
		Order string `json:"oid"`
	}{userRequest{"orderStatus", user}, cloid}
	var out struct {
		Status string     `json:"status"`
		Order  statusWire `json:"order"`
	}
	if err := c.info(ctx, "orderStatus", weightLight, request, &out); err != nil {
		return statusWire{}, false, noNull("orderStatus", err)
	}
	switch {
	case out.Status == "unknownOid":
		return statusWire{}, false, nil
	case out.Status == "order" && out.Order.Order.Cloid != nil && *out.Order.Order.Cloid == cloid:
		return out.Order, true, nil
	}
	return statusWire{}, false, unexpected("orderStatus", fmt.Errorf("status %.60q", out.Status))
}

type fillWire struct {
	Coin      string `json:"coin"`
	Px        dec    `json:"px"`
	Size      dec    `json:"sz"`
	Side      string `json:"side"`
	Time      millis `json:"time"`
	Start     dec    `json:"startPosition"`
	ClosedPnl dec    `json:"closedPnl"`
	Order     uint64 `json:"oid"`
	Fee       dec    `json:"fee"`
	ID        uint64 `json:"tid"`
}

// fillsBetween returns a user's fills in a period, at most 2,000, oldest first.
func (c *Client) fillsBetween(ctx context.Context, user string, from, to time.Time) ([]fillWire, error) {
	request := periodRequest{userRequest{"userFillsByTime", user}, from.UnixMilli(), to.UnixMilli()}
	var out []fillWire
	err := c.info(ctx, "userFillsByTime", weightDefault, request, &out)
	if err == nil && len(out) > maxFills {
		err = unexpected("userFillsByTime", fmt.Errorf("%d fills", len(out)))
	}
	c.limiter.Charge(len(out) / itemsPerWeight)
	slices.SortStableFunc(out, func(a, b fillWire) int { return cmp.Or(cmp.Compare(a.Time, b.Time), cmp.Compare(a.ID, b.ID)) })
	return out, noNull("userFillsByTime", err)
}

// periodRequest is an Info request about a user in a period.
type periodRequest struct {
	userRequest
	StartTime int64 `json:"startTime"`
	EndTime   int64 `json:"endTime"`
}

// paymentWire is an account's funding payment.
type paymentWire struct {
	Time  millis `json:"time"`
	Delta struct {
		Type string `json:"type"` // "funding"
		Coin string `json:"coin"`
		USD  dec    `json:"usdc"` // negative if the account paid
		Rate dec    `json:"fundingRate"`
	} `json:"delta"`
}

// fundingBetween returns a user's funding payments in a period, oldest first.
func (c *Client) fundingBetween(ctx context.Context, user string, from, to time.Time) ([]paymentWire, error) {
	var out []paymentWire
	err := c.info(ctx, "userFunding", weightDefault, periodRequest{userRequest{"userFunding", user}, from.UnixMilli(), to.UnixMilli()}, &out)
	if err == nil && len(out) > maxFunding {
		err = unexpected("userFunding", fmt.Errorf("%d payments", len(out)))
	}
	c.limiter.Charge(len(out) / itemsPerWeight)
	slices.SortStableFunc(out, func(a, b paymentWire) int { return cmp.Compare(a.Time, b.Time) })
	return out, noNull("userFunding", err)
}

type feesWire struct {
	Taker dec `json:"userCrossRate"`
	Maker dec `json:"userAddRate"`
}

func (c *Client) userFees(ctx context.Context, user string) (feesWire, error) {
	var out feesWire
	err := c.info(ctx, "userFees", weightDefault, userRequest{"userFees", user}, &out)
	return out, noNull("userFees", err)
}

// roleWire is the role that an address has at the venue: user, agent, vault, subAccount or missing.
type roleWire struct {
	Role string `json:"role"`
	Data struct {
		User string `json:"user"` // account that the agent trades for
	} `json:"data"`
}

func (c *Client) userRole(ctx context.Context, user string) (roleWire, error) {
	var out roleWire
	err := c.info(ctx, "userRole", weightUserRole, userRequest{"userRole", user}, &out)
	return out, noNull("userRole", err)
}

type agentWire struct {
	Name       string  `json:"name"`
	Address    string  `json:"address"`
	ValidUntil *millis `json:"validUntil"`
}

func (c *Client) extraAgents(ctx context.Context, user string) ([]agentWire, error) {
	var out []agentWire
	err := c.info(ctx, "extraAgents", weightDefault, userRequest{"extraAgents", user}, &out)
	if err == nil && len(out) > maxAgents {
		err = unexpected("extraAgents", fmt.Errorf("%d agents", len(out)))
	}
	return out, noNull("extraAgents", err)
}

// exchangeAnswer is a response from the exchange. Response is a string if the whole action failed.
type exchangeAnswer struct {
	Status   string          `json:"status"`
	Response json.RawMessage `json:"response"`
}

// orderResult is the state of one order in a response. At most one member is set.
type orderResult struct {
	Resting *struct {
		ID uint64 `json:"oid"`
	} `json:"resting"`
	Filled *struct {
		Size  dec    `json:"totalSz"`
		Price dec    `json:"avgPx"`
		ID    uint64 `json:"oid"`
	} `json:"filled"`
	Error string `json:"error"`
	word  string // status that is a plain string, such as waitingForTrigger or success
}

// UnmarshalJSON implements [json.Unmarshaler].
func (r *orderResult) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		return json.Unmarshal(data, &r.word)
	}
	type plain orderResult
	return json.Unmarshal(data, (*plain)(r))
}

// readStatuses returns the states of n orders or cancellations.
func readStatuses(response json.RawMessage, n int) ([]orderResult, error) {
	var out struct {
		Data struct {
			Statuses []orderResult `json:"statuses"`
		} `json:"data"`
	}
	if err := json.Unmarshal(response, &out); err != nil {
		return nil, err
	}
	if len(out.Data.Statuses) != n {
		return nil, fmt.Errorf("%d statuses for %d items", len(out.Data.Statuses), n)
	}
	return out.Data.Statuses, nil
}
