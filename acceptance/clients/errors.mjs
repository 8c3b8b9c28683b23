// Lists the tools, so that the client validates results, makes failing calls, and prints what the
// client's user sees.
export async function printErrors(client, transport, calls) {
  await client.connect(transport);
  const { tools } = await client.listTools();
  const outcomes = [];
  for (const call of JSON.parse(calls)) {
    const typed = tools.find((tool) => tool.name === call.name)?.outputSchema !== undefined;
    try {
      const { isError = false, content } = await client.callTool(call);
      outcomes.push({ typed, isError, text: content.map((item) => item.text).join('\n') });
    } catch (error) {
      outcomes.push({ typed, thrown: error.message });
    }
  }
  console.log(JSON.stringify(outcomes));
  await client.close();
}
