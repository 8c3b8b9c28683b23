import { useCallback } from "react";
import type { ToolItem } from "../../api/types";
import { Badge } from "../../components/Badge";
import { Checkbox } from "../../components/Toggle";
import { count } from "../../format";
import { visible } from "../../format/visible";
import type { Picking } from "./CatalogPane";
import { PickList } from "./PickList";
import { toolState } from "./selection";

type ToolListProps = Picking & { tools: ToolItem[]; loadMore: () => void };

/** Catalog tools with checkboxes. */
export function ToolList({ tools, loadMore, ...picking }: ToolListProps) {
  const keyOf = useCallback((i: number) => `${tools[i]?.server ?? "-"}/${tools[i]?.name}`, [tools]);
  return (
    <PickList label="Catalog tools" length={tools.length} height={52} keyOf={keyOf} onEnd={loadMore}>
      {(i) => {
        const tool = tools[i];
        return tool && <Line tool={tool} {...picking} />;
      }}
    </PickList>
  );
}

function Line({ tool, selection, pickTool, busy }: Picking & { tool: ToolItem }) {
  const state = toolState(selection, tool.server, tool.name);
  return (
    <div className="Toolset-line">
      <Checkbox
        checked={state !== "no"}
        disabled={busy !== undefined && busy === tool.server}
        onChange={(on) => pickTool(tool.server, tool.name, on)}
        label={
          <span className="Toolset-tool">
            <span className="cut" title={`${tool.server ?? "local"} / ${tool.name}`}>
              {tool.server && <span className="faint">{tool.server} / </span>}
              <span className="strong">{tool.name}</span>
            </span>
            <span className="cut small soft">{visible(tool.summary)}</span>
          </span>
        }
      />
      <span className="Toolset-number">
        {state === "whole" && <Badge tone="accent" title="The whole server is selected. Clear the checkbox to select its other tools individually.">whole server</Badge>}
        {tool.mode === "write" && <Badge tone="warn">write</Badge>}
        <span title="Approximate size of the definition in a prompt">{count(tool.tokens)} tokens</span>
      </span>
    </div>
  );
}
